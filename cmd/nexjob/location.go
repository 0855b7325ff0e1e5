package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/postgres"
)

// What names the storage, strongest first: the flag, the environment, the default.
const (
	storeFlag    = "store"
	storeEnv     = "NEXJOB_STORE"
	storeDefault = "sqlite:nexjob.db"
)

// storeText is the part of each command's help that says where jobs are kept.
const storeText = `The storage is named by --store or NEXJOB_STORE, and is sqlite:nexjob.db otherwise:
  sqlite:PATH   a SQLite file, PATH as the system writes it: sqlite:/var/lib/jobs.db
  postgres://USER@HOST/DATABASE?schema=NAME&prefix=NAME
                a PostgreSQL database, as libpq's URLs have it. The tables stand in that
                schema (default: where the search path begins) and their names begin with
                that prefix (default: nexjob). Other users of the machine can read a command
                line: a password goes into NEXJOB_STORE, PGPASSWORD or ~/.pgpass.`

// location is a storage that was named, and by what, for messages.
type location struct {
	by   string // --store, NEXJOB_STORE or "the default store"
	path string // of the SQLite file
	server
}

// server is a database of PostgreSQL.
type server struct {
	url     string // as pgx reads it; may hold a password
	options postgres.Options
	shown   string // the URL without what is nobody's business
}

func (at *location) onPostgres() bool { return at.url != "" }

// String names the storage for people and programs, without a password.
func (at *location) String() string {
	if at.onPostgres() {
		return at.shown
	}
	return "sqlite:" + at.path
}

// addStoreFlag declares --store on the root, for every command below it.
func addStoreFlag(root *cobra.Command) {
	root.PersistentFlags().String(storeFlag, "", "the storage, sqlite:PATH or postgres://USER@HOST/DATABASE "+
		"(default $"+storeEnv+", else "+storeDefault+")")
}

// storeLocation reads which storage the command line names. Nothing is opened.
func storeLocation(cmd *cobra.Command) (*location, error) {
	text, by := storeDefault, "the default store"
	if env := os.Getenv(storeEnv); env != "" {
		text, by = env, storeEnv
	}
	if flag := cmd.Flag(storeFlag); flag != nil && flag.Changed {
		text, by = flag.Value.String(), "--"+storeFlag
	}
	at, err := parseStore(text)
	if err != nil {
		return nil, input.Wrong(by, "%v", err)
	}
	at.by = by
	return at, nil
}

// parseStore reads the URL of a storage. What may hold a password is not repeated: the
// rest of a scheme that is not known, and a connection string of another form.
func parseStore(text string) (*location, error) {
	scheme, rest, found := strings.Cut(text, ":")
	const want = "want sqlite:PATH or postgres://USER@HOST/DATABASE"
	switch {
	case strings.ContainsAny(scheme, "=@"):
		return nil, errors.New("it is not the URL of a storage: " + want)
	case !found && (scheme == "postgres" || scheme == "postgresql"): // as the demo takes it
		return nil, fmt.Errorf("%q names no database: want postgres://USER@HOST/DATABASE, or for a SQLite file sqlite:%s", text, text)
	case !found:
		return nil, fmt.Errorf("%q has no scheme: a SQLite file is sqlite:%s", text, text)
	case scheme == "postgres" || scheme == "postgresql":
		return parsePostgres(text)
	case scheme != "sqlite":
		return nil, fmt.Errorf("unknown scheme %q: %s", scheme, want)
	}
	path := rest
	switch {
	case path == "" || strings.HasPrefix(path, ":memory:"):
		return nil, fmt.Errorf("sqlite: without the path of a file: want sqlite:PATH, as in %s", storeDefault)
	case strings.HasPrefix(path, "file:"):
		return nil, fmt.Errorf("%q: leave out file:, and write the path as the system does", text)
	case strings.HasPrefix(path, "//"):
		// Some tools read sqlite:///a.db as a file in this folder, others as one in the
		// root folder. Guessing would open the wrong one.
		return nil, fmt.Errorf("%q can be read in two ways: write sqlite:jobs.db for a file here, "+
			"sqlite:/var/lib/jobs.db for one elsewhere", text)
	case strings.Contains(path, "?"):
		return nil, fmt.Errorf("%q: no settings are known after the path: leave out ? and what follows", text)
	}
	return &location{path: path}, nil
}

// plainName is what a schema and a prefix look like to the engine.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// errNotPostgres is the answer to a URL of which any part may be one of its password.
var errNotPostgres = errors.New("it cannot be read as postgres://USER:PASSWORD@HOST:PORT/DATABASE. In a password " +
	"write %40 for @, %2F for /, %3A for :, %3F for ?, %23 for #, %25 for %; or leave it out and set PGPASSWORD")

// parsePostgres takes our settings out of a URL and leaves the rest to pgx. No part of
// it stands in an error, but names of settings.
func parsePostgres(text string) (*location, error) {
	at, err := url.Parse(text)
	if err != nil || at.Opaque != "" || at.Fragment != "" || strings.Contains(at.Path, "@") ||
		!strings.HasPrefix(text, at.Scheme+"://") {
		return nil, errNotPostgres
	}
	q, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return nil, errNotPostgres
	}
	s := server{options: postgres.Options{Schema: q.Get("schema"), Prefix: q.Get("prefix"), ListenURL: "none"}}
	for field, name := range map[string]string{"schema": s.options.Schema, "prefix": s.options.Prefix} {
		if (q.Has(field) || name != "") && !plainName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q: want at most 40 letters, digits and underscores, no digit first", field, name)
		}
	}
	s.shown = shown(at, q)
	q.Del("schema")
	q.Del("prefix")
	if !q.Has("connect_timeout") {
		q.Set("connect_timeout", "10") // seconds; a host that does not answer at all takes minutes otherwise
	}
	at.RawQuery = q.Encode()
	s.url = at.String()
	if _, err := pgxpool.ParseConfig(s.url); err != nil {
		return nil, errNotPostgres
	}
	return &location{server: s}, nil
}

// shown is a URL as messages show it: who, where and which tables.
func shown(at *url.URL, q url.Values) string {
	seen := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}
	if name := at.User.Username(); name != "" {
		seen.User = url.User(name)
	}
	tables := make(url.Values)
	for _, field := range []string{"schema", "prefix"} {
		if q.Has(field) {
			tables.Set(field, q.Get(field))
		}
	}
	seen.RawQuery = tables.Encode()
	return seen.String()
}
