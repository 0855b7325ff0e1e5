package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/sqlite"
)

func newMigrate() *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema of the storage up to date, or print the SQL that does",
		Long: `Brings the schema up to the version that this nexjob works on, or to --to, and prints
from which version to which. It goes only forward, each step whole or not at all;
several processes may do it at once, and one that is repeated changes nothing.

With --print nothing is opened: the SQL goes to standard output, for people who bring
up their schema with a tool of their own. It notes each step as applied, so that nexjob
regards it as done. Run each version in one transaction, in order. --from leaves out
those that are applied.

` + storeText + `
A SQLite file that is not there is made, and so is a schema that --store names; a
database is not. No other command changes the schema of a PostgreSQL database.

Exit codes: 0 done, or nothing was to be done; 1 it could not be done, and nothing was
changed; 2 a flag is wrong.`,
		Example: `  nexjob migrate --store sqlite:/var/lib/shop/app.db
  nexjob migrate --store 'postgres://shop@db.internal/shop?schema=jobs'
  nexjob migrate --print > nexjob.sql
  nexjob migrate --print --json | jq -r .sql`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return migrate(cmd, &o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.print, "print", false, "print the SQL and open nothing")
	f.Int64Var(&o.to, "to", 0, "the last `VERSION` (default: the newest)")
	f.Int64Var(&o.from, "from", 0, "with --print: the `VERSION` that is applied already")
	return cmd
}

type migrateOptions struct {
	print    bool
	to, from int64
}

// migrated is what was done, as JSON.
type migrated struct {
	Store string `json:"store"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
}

func migrate(cmd *cobra.Command, o *migrateOptions) error {
	at, err := storeLocation(cmd)
	if err != nil {
		return err
	}
	all, err := at.migrations()
	if err != nil {
		return err
	}
	newest := all[len(all)-1].Version
	switch {
	case !cmd.Flags().Changed("to"):
		o.to = newest
	case o.to < 1 || o.to > newest:
		return input.Wrong("--to", "%d: this nexjob knows the versions 1 to %d", o.to, newest)
	}
	switch {
	case o.from != 0 && !o.print:
		return input.Wrong("--from", "it is for --print; a storage knows itself which version it has")
	case o.from < 0 || o.from > o.to:
		return input.Wrong("--from", "%d: want 0 to %d", o.from, o.to)
	case o.print:
		return printMigrations(cmd, at, all[o.from:o.to])
	}
	from, err := at.migrate(cmd.Context(), o.to)
	if err != nil {
		return err
	}
	done := migrated{Store: at.String(), From: from, To: max(from, o.to)}
	return printer(cmd).Value(done, func(w io.Writer) error {
		if done.From == done.To {
			_, err = fmt.Fprintf(w, "%s is at version %d: nothing to do\n", view.Safe(done.Store), done.To)
			return err
		}
		_, err = fmt.Fprintf(w, "%s went from version %d to %d\n", view.Safe(done.Store), done.From, done.To)
		return err
	})
}

// migrate brings the schema up to a version.
func (at *location) migrate(ctx context.Context, to int64) (from int64, err error) {
	if at.onPostgres() {
		from, err = postgres.MigrateTo(ctx, at.url, at.options, to)
		if err != nil {
			return 0, at.explain(err)
		}
		return from, nil
	}
	if _, err := at.schema(ctx); err != nil {
		return 0, err
	}
	if from, err = sqlite.MigrateTo(ctx, at.path, to); err != nil {
		return 0, fmt.Errorf("%s: %w", at.by, err)
	}
	return from, nil
}

// step is a migration as JSON.
type step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	SQL     string `json:"sql"`
}

// migrations are all steps of the engine, oldest first.
func (at *location) migrations() (steps []step, err error) {
	if at.onPostgres() {
		all, err := postgres.Migrations(at.options)
		for _, m := range all {
			steps = append(steps, step(m))
		}
		return steps, err
	}
	all, err := sqlite.Migrations()
	for _, m := range all {
		steps = append(steps, step(m))
	}
	return steps, err
}

// printMigrations prints SQL that may be run as it stands; as JSON, a line per version,
// for a tool that wants a file each.
func printMigrations(cmd *cobra.Command, at *location, all []step) error {
	engine := "SQLite"
	if at.onPostgres() {
		engine = "PostgreSQL"
	}
	p := printer(cmd)
	for _, m := range all {
		err := p.Value(m, func(w io.Writer) error {
			title := fmt.Sprintf("-- nexjob, schema for %s, version %d: %s. Run it in one transaction.", engine, m.Version, m.Name)
			_, err := fmt.Fprintf(w, "%s\n\n%s\n", title, strings.TrimSpace(m.SQL))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
