package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/sqlite"
)

// commandOn is a command whose --store names a file.
func commandOn(t *testing.T, path string) *cobra.Command {
	t.Helper()
	t.Setenv(storeEnv, "sqlite:"+filepath.Join(t.TempDir(), "another.db"))
	root := newRoot()
	if err := root.PersistentFlags().Set(storeFlag, "sqlite:"+path); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{Use: "look"}
	root.AddCommand(cmd)
	cmd.SetErr(io.Discard)
	return cmd
}

// TestOpenStore: a command that reads makes no file, and no tables in anybody's.
func TestOpenStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	cmd := commandOn(t, path)
	_, err := openStore(t.Context(), cmd)
	if _, ok := errors.AsType[*input.Error](err); !ok || !strings.HasPrefix(err.Error(), "--store: there is no file ") {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), "has no tables of nexjob") {
		t.Errorf("an empty file: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("the file was changed: %v", err)
	}
	store, made, err := openOrMakeStore(t.Context(), cmd)
	if err != nil || made != path {
		t.Fatalf("made %q, %v", made, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		store, err := openStore(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, made, err := openOrMakeStore(t.Context(), cmd); made != "" || err != nil {
		t.Errorf("made again: %q, %v", made, err)
	}
}

// TestOpenOldSchema: bringing the schema up is a decision.
func TestOpenOldSchema(t *testing.T) {
	at := location{by: "--store", path: "jobs.db"}
	_, err := at.openFile(t.Context(), commandOn(t, "jobs.db"), sqlite.Schema{Exists: true, Version: 1, Newest: 2})
	if err == nil || !strings.Contains(err.Error(), "is at version 1 and this nexjob works on 2: run nexjob migrate") {
		t.Errorf("%v", err)
	}
}

func TestParseStore(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:nexjob.db":        "nexjob.db",
		"sqlite:/var/lib/jobs.db": "/var/lib/jobs.db",
		`sqlite:C:\jobs.db`:       `C:\jobs.db`,
		"sqlite:a b%20#.db":       "a b%20#.db",
	} {
		if got, err := parseStore(text); err != nil || got.path != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// frozen is a storage whose file somebody holds for a while.
type frozen struct {
	nexjob.Storage
	held time.Duration
}

func (f frozen) Enqueue(context.Context, time.Time, []nexjob.NewJob) ([]nexjob.Answer, error) {
	time.Sleep(f.held)
	return nil, nil
}

// TestPatientStore: a wait is named once it is long, and only once.
func TestPatientStore(t *testing.T) {
	for _, tt := range []struct {
		held time.Duration
		want int
	}{{patience / 2, 0}, {2 * patience, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var notes strings.Builder
			store := &patientStore{Storage: frozen{held: tt.held}, notes: &notes}
			for range 3 {
				if _, err := store.Enqueue(t.Context(), time.Now(), nil); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got := strings.Count(notes.String(), "still waiting"); got != tt.want {
				t.Errorf("held for %s: %q", tt.held, notes.String())
			}
		})
	}
}
