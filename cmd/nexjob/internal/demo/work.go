package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// lease is how long a job of a dead worker waits for the next one: short, so that
// nobody has to look at a demo for the usual 30 seconds.
const lease = 2 * time.Second

// WorkOptions say what a worker process serves.
type WorkOptions struct {
	DB         string // the SQLite file
	Provider   string // URL of the payment provider
	Name       string // of this process
	Slots      int
	CrashLimit int
}

// Work is the life of one worker process: it works the shop's jobs until stdin or
// ctx ends. The process that started it holds the other end of stdin, so a worker
// does not outlive it.
func Work(ctx context.Context, o WorkOptions, stdin io.Reader, log io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process: a read of stdin cannot be interrupted
		defer stop()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	store, err := sqlite.Open(ctx, o.DB, sqlite.Options{})
	if err != nil {
		return fmt.Errorf("demo: open the storage: %w", err)
	}
	defer func() { _ = store.Close() }() // everything is committed, or the worker said why not
	pay := &cashier{url: o.Provider, worker: o.Name, http: &http.Client{}}
	s := &shop{db: store.DB(), pay: pay, committed: pay.committed}
	w := worker.New(store, worker.Options{
		Name:            o.Name,
		Slots:           o.Slots,
		Lease:           lease,
		Poll:            100 * time.Millisecond, // jobs come from another process
		ShutdownTimeout: 5 * time.Second,
		CrashLimit:      o.CrashLimit,
		Logger:          slog.New(slog.NewTextHandler(log, nil)),
	})
	worker.Handle(w, ChargeCard, s.charge)
	return w.Run(ctx)
}
