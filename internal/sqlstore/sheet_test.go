package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/internal/sqlstore"
)

func TestParseSheet(t *testing.T) {
	got, err := sqlstore.ParseSheet("-- a page\n\n-- part: columns\na,\n  b\n\n-- name: one\n-- why\n" +
		"SELECT {columns}\n\nFROM t -- here\n-- name: two\nDELETE FROM t\n")
	if err != nil {
		t.Fatal(err)
	}
	want := sqlstore.Sheet{"one": "SELECT a,\n  b\nFROM t -- here", "two": "DELETE FROM t"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sheet (-want +got):\n%s", diff)
	}
	for text, why := range map[string]string{
		"SELECT 1": "under no name",
		"-- name: one\nSELECT 1\n-- name: one\nSELECT": "there twice",
		"-- name: one\n-- name: two\nSELECT 1":         "empty",
		"-- name: one\nSELECT {columns}":               "no part {columns}",
		"-- name:\nSELECT 1":                           "names nothing",
	} {
		if _, err := sqlstore.ParseSheet(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("parse %q: %v, want an error that says %q", text, err, why)
		}
	}
}

func FuzzParseSheet(f *testing.F) {
	f.Add("-- part: x\na\n-- name: y\nSELECT {x}")
	f.Add("-- part: {x}\n{x}\n-- name: y\n{x}{x}")
	f.Fuzz(func(t *testing.T, text string) {
		statements, err := sqlstore.ParseSheet(text)
		if err != nil {
			return
		}
		for name, statement := range statements {
			if name == "" || statement == "" {
				t.Errorf("%q stands for %q", name, statement)
			}
		}
	})
}
