package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// maxName is how many bytes of a name PostgreSQL keeps; it cuts off the rest.
const maxName = 63

// givenBy is the environment variable that names a server for a version.
func givenBy(version int) string {
	if version == Versions()[0] {
		return "NEXJOB_TEST_POSTGRES_URL"
	}
	return fmt.Sprintf("NEXJOB_TEST_POSTGRES%d_URL", version)
}

// usePostgres answers a server that runs already. Names of databases get a prefix there,
// since the tests of several packages run at once and all use it.
func usePostgres(version int, given string) (*Postgres, error) {
	address, err := url.Parse(given)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("testenv: %s is no URL of the form postgres://user:password@host:port/database", givenBy(version))
	}
	return &Postgres{address: address, prefix: "nexjob_" + strings.ToLower(rand.Text()[:8]) + "_"}, nil
}

// name is what a database is called on the server.
func (p *Postgres) name(database string) string {
	if database == "postgres" {
		return database
	}
	return p.prefix + database
}

// CreateDatabase makes an empty database. One that is there already is an error.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	name = p.name(name)
	if len(name) > maxName {
		return fmt.Errorf("testenv: create database: %s is longer than %d bytes", name, maxName)
	}
	if err := p.execute(ctx, "CREATE DATABASE "+quote(name)); err != nil {
		return fmt.Errorf("testenv: create database %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.created = append(p.created, name)
	return nil
}

// dropDatabases leaves a server that is not ours as it was.
func (p *Postgres) dropDatabases() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed []error
	for _, name := range p.created {
		failed = append(failed, p.execute(context.Background(), "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"))
	}
	p.created = nil
	return errors.Join(failed...)
}

// execute runs one statement through psql, which spares this package a driver.
func (p *Postgres) execute(ctx context.Context, statement string) error {
	_, err := psql(ctx, p.at(""), statement)
	return err
}

// psql answers what a statement answers, without headings. The password goes by the
// environment: every user of the machine may read command lines.
func psql(ctx context.Context, at *url.URL, statement string) (string, error) {
	path, err := psqlPath()
	if err != nil {
		return "", err
	}
	bare := *at
	password, _ := at.User.Password()
	bare.User = url.User(at.User.Username())
	cmd := exec.CommandContext(ctx, path, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", bare.String(), "-c", statement)
	cmd.Env = append(environment(os.Environ()), "PGCONNECT_TIMEOUT=30")
	if password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	}
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, text)
	}
	return text, nil
}

func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
