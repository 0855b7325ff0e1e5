package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// ErrNotOurs is the answer where a server that the environment named would have to be
// stopped or started: others may be using it.
var ErrNotOurs = errors.New("testenv: the server is not ours to stop or start")

// Versions are the releases of PostgreSQL that StartPostgres knows, oldest first.
func Versions() []int { return []int{15, 18} }

// PostgresOptions say what StartPostgres starts. The zero value is for tests.
type PostgresOptions struct {
	Version  int               // 15 (default) or 18
	Fsync    bool              // commits reach the disk; by default only a crash of the machine loses them
	Settings map[string]string // of postgresql.conf, by name; they come last and so win
	Dir      string            // holds the server's folder; default os.TempDir, and user postgres must reach it
}

// Postgres is a server of PostgreSQL. Its methods may be called from many goroutines.
type Postgres struct {
	address  *url.URL // with the database that "" stands for
	prefix   string   // of database names on a server that is not ours
	settings []string // command line
	home     string   // holds bin
	dir      string   // holds data, and all else of this server; "" if it is not ours
	user     *account

	mu      sync.Mutex
	server  *child   // the last one started
	created []string // databases to drop on a server that is not ours
}

// StartPostgres answers a server that takes connections. The context bounds the start
// alone: the server lives until Close.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	version := options.version()
	if !slices.Contains(Versions(), version) {
		return nil, fmt.Errorf("testenv: start PostgreSQL %d: the versions are %v", version, Versions())
	}
	if given := os.Getenv(givenBy(version)); given != "" && len(options.Settings) == 0 {
		return usePostgres(version, given)
	}
	p, err := startPrivate(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("testenv: start PostgreSQL %d: %w", version, err)
	}
	return p, nil
}

func (o PostgresOptions) version() int {
	if o.Version == 0 {
		return Versions()[0]
	}
	return o.Version
}

// startPrivate starts a server of our own, whatever the environment names.
func startPrivate(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	home, err := postgresHome(options.version())
	if err != nil {
		return nil, err
	}
	p := &Postgres{settings: settings(options)}
	if p.user, err = accountOf("postgres", "postgresql"); err != nil {
		return nil, err
	}
	if p.dir, err = makeFolder(ctx, options.Dir, fmt.Sprintf("nexjob-postgres%d-", options.version()), p.user); err != nil {
		return nil, err
	}
	if p.home, err = lend(ctx, home, filepath.Join(p.dir, "home"), p.user); err == nil {
		err = p.create(ctx)
	}
	if err == nil {
		err = onFreePort(func(port int) error {
			p.address = local("postgres", port)
			return p.Start(ctx)
		})
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// settings are the arguments that configure a server.
func settings(options PostgresOptions) []string {
	all := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "", // a socket's path must be short, and a temporary folder's may be long
		"max_connections":         "300",
	}
	if !options.Fsync {
		all["fsync"] = "off"
		all["full_page_writes"] = "off"
	}
	maps.Copy(all, options.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// create makes the data folder.
func (p *Postgres) create(ctx context.Context) error {
	return run(ctx, program{
		path: filepath.Join(p.home, "bin", "initdb"),
		args: []string{
			"-D", p.data(), "-U", "postgres", "-A", "trust", "--no-sync", "--no-instructions",
			"--locale=C.UTF-8", "-E", "UTF8",
		},
		dir:  p.dir,
		user: p.user,
	})
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// Start starts the server again, on the same port and data, and answers once it takes
// connections: after Kill, when it has recovered.
func (p *Postgres) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(ctx)
}

func (p *Postgres) start(ctx context.Context) error {
	if p.dir == "" {
		return ErrNotOurs
	}
	if p.server.running() {
		return errors.New("testenv: the server is running")
	}
	server, err := startChild(ctx, program{
		path:   filepath.Join(p.home, "bin", "postgres"),
		args:   slices.Concat([]string{"-D", p.data(), "-p", p.address.Port()}, p.settings),
		dir:    p.dir,
		user:   p.user,
		ready:  "database system is ready to accept connections",
		orphan: syscall.SIGQUIT,
	})
	if err == nil {
		p.server = server
	}
	return err
}

// Kill ends the server at once, as a crash would (SIGQUIT, an immediate shutdown): every
// connection breaks, nothing is written any more, and the next start has to recover. It
// answers when all of its processes are gone; killing a dead server does nothing.
func (p *Postgres) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		return ErrNotOurs
	}
	return p.server.stop(syscall.SIGQUIT, crashLimit)
}

// Restart ends the server in good order, which breaks every connection, and starts it
// again on the same port and data. Who clings to it gets ten seconds; then it is killed.
func (p *Postgres) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		return ErrNotOurs
	}
	if err := p.server.stop(syscall.SIGINT, stopLimit); err != nil {
		return err
	}
	return p.start(ctx)
}

// PID is the server's first process; 0 while it is down and where it is not ours. Who
// sends that process SIGKILL calls Kill before Start, which waits for the others.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.server.running() {
		return 0
	}
	return p.server.pid
}

// Close ends the server and removes its folder. On a server that is not ours it drops
// the databases that CreateDatabase made. A second call does nothing.
func (p *Postgres) Close() error {
	if p.dir == "" {
		return p.dropDatabases()
	}
	return errors.Join(p.Kill(), os.RemoveAll(p.dir))
}

// URL is where to connect to a database; "" is the one that is always there. A name
// stands for the database that CreateDatabase made of it.
func (p *Postgres) URL(database string) string {
	return p.at(database).String()
}

func (p *Postgres) at(database string) *url.URL {
	address := *p.address
	if database != "" {
		address.Path = "/" + p.name(database)
	}
	return &address
}

// local is the address of a server of ours.
func local(database string, port int) *url.URL {
	return &url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: "127.0.0.1:" + strconv.Itoa(port),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
}
