package demo

import (
	"net/url"
	"strings"
	"testing"

	"github.com/nexjob/nexjob/internal/testenv"
)

// TestNoSchemaIsLeftBehind: whom the server does not allow to make a schema is told what is
// missing, and not that the schema is left.
func TestNoSchemaIsLeftBehind(t *testing.T) {
	ctx := t.Context()
	server, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	var p place
	if err := p.on(server.URL("")); err != nil {
		t.Fatal(err)
	}
	if err := p.run(ctx, "CREATE ROLE guest LOGIN"); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(p.at)
	if err != nil {
		t.Fatal(err)
	}
	at.User = nil
	q := at.Query()
	q.Set("user", "guest")
	at.RawQuery = q.Encode()
	nowhere := *at
	nowhere.Path = "/none"
	for name, c := range map[string]struct{ at, want string }{
		"without the right": {at.String(), "GRANT CREATE ON DATABASE"},
		"that is not there": {nowhere.String(), `database "none" does not exist`},
	} {
		p := place{at: c.at, schema: p.schema}
		if err := p.make(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("in a database %s: %v", name, err)
		}
		if err := p.leave(ctx); err != nil {
			t.Errorf("in a database %s: %v", name, err)
		}
	}
}
