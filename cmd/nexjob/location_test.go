package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// secret is a password, and pieces of it that a URL which is misread falls into.
var secret = []string{"hunter2", "s3cr", "et9"}

// TestPostgresLocations: which database, schema and prefix a URL names, and what messages
// show of it.
func TestPostgresLocations(t *testing.T) {
	for text, want := range map[string]struct{ shown, schema, prefix, database string }{
		"postgres://u:hunter2@db.internal:5433/shop":                   {"postgres://u@db.internal:5433/shop", "", "", "shop"},
		"postgresql://u:hunter2@h/shop?schema=jobs&prefix=q":           {"postgresql://u@h/shop?prefix=q&schema=jobs", "jobs", "q", "shop"},
		"postgres://h/shop?password=hunter2&user=u&sslmode=disable":    {"postgres://h/shop", "", "", "shop"},
		"postgres://u:s3cr%2Fet9@h/shop?application_name=x&schema=a_1": {"postgres://u@h/shop?schema=a_1", "a_1", "", "shop"},
		"postgres:///shop?host=/run/postgresql":                        {"postgres:///shop", "", "", "shop"},
		"postgres://u@[::1]:5432/shop?pool_max_conns=3":                {"postgres://u@[::1]:5432/shop", "", "", "shop"},
	} {
		at, err := parseStore(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		config, err := pgxpool.ParseConfig(at.url)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if at.String() != want.shown || at.options.Schema != want.schema || at.options.Prefix != want.prefix ||
			config.ConnConfig.Database != want.database || config.ConnConfig.ConnectTimeout <= 0 {
			t.Errorf("%s: shown as %s, %+v", text, at, at.options)
		}
		for _, foreign := range []string{"schema", "prefix"} {
			if value, sent := config.ConnConfig.RuntimeParams[foreign]; sent {
				t.Errorf("%s: the server is sent %s=%s", text, foreign, value)
			}
		}
	}
}

// TestNoPasswordIsShown: whatever is wrong with a URL, no piece of a password comes back,
// from any command.
func TestNoPasswordIsShown(t *testing.T) {
	for _, text := range []string{
		"postgres://u:s3cr/et9@h/shop",          // the rest seems to be the path
		"postgres://u:5/et9@h/shop",             // a port, and a path
		"postgres://u:s3cr#et9@h/shop",          // a fragment
		"postgres://u:5#et9@h/shop",             // likewise
		"postgres://u:s3cr?et9@h/shop",          // settings
		"postgres://u:5?et9@h/shop",             // likewise
		"postgres://u:s3cr%et9@h/shop",          // no escape
		"postgres://u:hunter2@h:port/shop",      // no port
		"postgres://u:hunter2@h/shop?sslmode=x", // no mode
		"postgres:u:hunter2@h/shop",
		"postgres:/u:hunter2@h/shop",
		"postgres://u:hunter2@h/shop?schema=a-b",
		"postgres://u:hunter2@h/shop?prefix=",
		"mysql://u:hunter2@h/shop",
		"host=h user=u password=hunter2",
		"host=h password=hunter2:x",
		"u:hunter2@h/shop",
		"postgres://u:hunter2@127.0.0.1:1/shop", // nobody listens
		"postgres://u@127.0.0.1:1/shop?password=hunter2",
	} {
		for _, args := range [][]string{{"queues"}, {"migrate"}, {"enqueue", "charge"}, {"demo"}} {
			t.Setenv(storeEnv, "")
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append(args, "--store", text), &stdout, &stderr)
			if code == 0 || stderr.Len() == 0 {
				t.Errorf("%s %s: exit code %d", args[0], text, code)
			}
			for _, piece := range secret {
				if strings.Contains(stdout.String()+stderr.String(), piece) {
					t.Errorf("%s %s: %s%s", args[0], text, &stdout, &stderr)
				}
			}
		}
	}
}
