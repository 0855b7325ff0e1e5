package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// StatementTexts lends tests the statements by name.
func StatementTexts(s *Store) map[string]string {
	texts := make(map[string]string, len(s.sheet))
	for name, statement := range s.sheet {
		texts[name] = statement.Text
	}
	return texts
}

// Searched are the statements that put a query's conditions together.
type Searched string

// What is searched for.
const (
	SearchPage  Searched = "page"
	SearchIDs   Searched = "ids"
	SearchTally Searched = "tally"
	SearchKeys  Searched = "keys"
)

// PlanOf tells how PostgreSQL means to answer a query, line by line.
func PlanOf(ctx context.Context, s *Store, conn *pgx.Conn, what Searched, q nexjob.Query, now time.Time) ([]string, error) {
	var statement wire.Statement
	var args []wire.Arg
	switch what {
	case SearchPage:
		statement, args = searchJobs(s.sheet, &q, now).page(10)
	case SearchIDs:
		statement, args = searchJobs(s.sheet, &q, now).ids(10)
	case SearchTally:
		statement, args = searchJobs(s.sheet, &q, now, micros(now)).tally()
	case SearchKeys:
		seen := &explained{on: wire.NewConn(conn)}
		q.Of = nexjob.Keys
		_, err := session{sheet: s.sheet, on: seen}.find(ctx, now, &q)
		return seen.lines, err
	}
	seen := &explained{on: wire.NewConn(conn)}
	_, err := seen.Run(ctx, statement, nil, args...)
	return seen.lines, err
}

// explained is a runner that asks for the plans of statements instead of running them.
type explained struct {
	on    wire.Runner
	lines []string
}

// Run notes the plan.
func (e *explained) Run(ctx context.Context, s wire.Statement, _ func(wire.Row) error, args ...wire.Arg) (int64, error) {
	return e.on.Run(ctx, wire.Statement{Text: "EXPLAIN (COSTS OFF) " + s.Text}, func(row wire.Row) error {
		e.lines = append(e.lines, row.Text(0))
		return nil
	}, args...)
}
