package storagetest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// Serve lets a test in another process use a storage: it answers requests from in
// on out until in ends, and closes the storage. Open is given the clock of the
// test, which every request carries. A TestMain calls it when it finds itself
// started by Child:
//
//	if path := os.Getenv("CHILD_OF"); path != "" {
//		err := storagetest.Serve(os.Stdin, os.Stdout, func(clock func() time.Time) (nexjob.Storage, error) {
//			return sqlite.Open(context.Background(), path, sqlite.Options{Clock: clock})
//		})
//		…
//	}
func Serve(in io.Reader, out io.Writer, open func(clock func() time.Time) (nexjob.Storage, error)) error {
	registerErrors()
	v := &server{time: newClock(), encoder: gob.NewEncoder(out)}
	v.time.now = time.Time{}
	decoder := gob.NewDecoder(in)
	var calls sync.WaitGroup
	for {
		var q request
		if err := decoder.Decode(&q); err != nil {
			calls.Wait()
			return errors.Join(v.close(), pipeError(err))
		}
		v.time.advance(q.Clock)
		if v.storage == nil {
			s, err := open(v.time.Now)
			if err != nil {
				return fmt.Errorf("storagetest: serve: open: %w", err)
			}
			v.storage = s
		}
		calls.Go(func() { v.answer(q) })
	}
}

// pipeError is nil for the end of a pipe.
func pipeError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("storagetest: serve: %w", err)
}

type server struct {
	time    *clock
	storage nexjob.Storage

	mu      sync.Mutex // guards encoder
	encoder *gob.Encoder
}

func (v *server) close() error {
	if v.storage == nil {
		return nil
	}
	return v.storage.Close()
}

func (v *server) answer(q request) {
	r := v.do(q)
	r.Number = q.Number
	r.carryAll()
	v.mu.Lock()
	defer v.mu.Unlock()
	// A pipe that broke ends the test's call, which is where it is told.
	_ = v.encoder.Encode(r)
}

func (v *server) do(q request) (r response) {
	ctx := context.Background()
	switch q.Method {
	case "enqueue":
		r.Answers, r.Err = v.storage.Enqueue(ctx, q.Now, q.Jobs)
	case "claim":
		r.Claimed, r.Err = v.storage.Claim(ctx, q.Now, q.Ask)
	case "renew":
		r.Renewals, r.Err = v.storage.Renew(ctx, q.Now, q.Until, q.Leases)
	case "settle":
		r.Settled, r.Err = v.storage.Settle(ctx, q.Now, q.Ends)
	case "record":
		r.Recorded, r.Err = v.storage.Record(ctx, q.Now, q.Receipts)
	case "find":
		r.Page, r.Err = v.storage.Find(ctx, q.Now, q.Query)
	case "count":
		r.Tallies, r.Err = v.storage.Count(ctx, q.Now, q.Query)
	case "amend":
		r.Amended, r.Err = v.storage.Amend(ctx, q.Now, q.Query, q.Do, q.Limit)
	case "swap":
		r.Put, r.Err = v.storage.Put(ctx, q.Now, q.Puts)
	case "entries":
		r.Entries, r.Err = v.storage.Entries(ctx, q.Now, q.Kind)
	case "clock":
		r.Time, r.Err = v.storage.Clock(ctx)
	case "migrate":
		r.Err = v.storage.Migrate(ctx)
	default:
		r.Err = fmt.Errorf("storagetest: serve: no method %q", q.Method)
	}
	return r
}
