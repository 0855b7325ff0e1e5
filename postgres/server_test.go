package postgres_test

import (
	"testing"

	"github.com/nexjob/nexjob/internal/testenv"
)

// server is where an empty database is, on a server that the test's end stops.
func server(t testing.TB) string {
	t.Helper()
	p, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	if err := p.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	return p.URL("shop")
}
