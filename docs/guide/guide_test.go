// Package guide_test is the code of the guide's pages: what a page shows stands here, or in
// a program of testdata, and is compiled and run by go test.
package guide_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// open makes a store in a new file, with a table of its user's.
func open(table string) (store *sqlite.Store, client *nexjob.Client, done func()) {
	folder, remove := temporary()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "shop.db"), sqlite.Options{})
	if err != nil {
		panic(err)
	}
	if _, err := store.DB().ExecContext(ctx, table); err != nil {
		panic(err)
	}
	client = nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	return store, client, func() {
		fail(client.Close(ctx))
		fail(store.Close())
		remove()
	}
}

// temporary makes a folder for an example, which has no t.TempDir.
func temporary() (folder string, remove func()) {
	folder, err := os.MkdirTemp("", "nexjob-guide-")
	if err != nil {
		panic(err)
	}
	return folder, func() { _ = os.RemoveAll(folder) }
}

// serve runs a worker until the answered function is called.
func serve[T any](
	store nexjob.Storage, k nexjob.Kind[T], handler func(context.Context, *worker.Run, T) error,
) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w := worker.New(store, worker.Options{Logger: quiet()})
	worker.Handle(w, k, handler)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	return func() {
		cancel()
		fail(<-stopped)
	}
}

// end waits for a job's end and says what it was.
func end(client *nexjob.Client, id nexjob.ID) string {
	job, err := client.Wait(context.Background(), id)
	if err != nil {
		return err.Error()
	}
	if job.Reason != "" {
		return undated(fmt.Sprint(job.State, ": ", job.Reason))
	}
	return job.State.String()
}

// plain is an error's text without what differs from run to run.
func plain(err error) string {
	text := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(fmt.Sprint(err), "JOB")
	return regexp.MustCompile(`[0-9a-f]{16,}`).ReplaceAllString(text, "HASH")
}

// undated is a text without IDs and times.
func undated(text string) string {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(plain(errors.New(text)), "TIME")
}

// fail prints an error, so that the example's output differs.
func fail(err error) {
	if err != nil {
		fmt.Println(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
