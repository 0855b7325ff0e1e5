// Package testenv starts private servers for tests, benchmarks and the demo: PostgreSQL
// 15 and 18, pgbouncer, Redis. Each runs on a free port of 127.0.0.1, in a folder of its
// own, as an unprivileged user where we are root, and is there until Close. No other
// process is ever ended, and a server of ours ends when the process that started it
// does, even by SIGKILL; only its folder stays then.
//
// Servers come from Debian's packages, and PostgreSQL 18 from .ci/postgres18. What is
// missing is an error that holds the line to run. NEXJOB_POSTGRES15 and NEXJOB_POSTGRES18
// name another installation: the folder that holds bin.
//
// Where NEXJOB_TEST_POSTGRES_URL is set, the server there stands for version 15, whatever
// its own is, and NEXJOB_TEST_POSTGRES18_URL for 18. Such a server is used and left as it
// is: databases get a name of their own there and Close drops them; Kill, Start and
// Restart answer ErrNotOurs. Who asks for Settings gets a private server all the same.
//
// It stands on the operating system alone, and must not know what its users keep in
// these servers, nor their drivers. Start reading at StartPostgres, then child.
package testenv
