package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// TestAPanicLeavesNothing: of a step that panics half-way nothing is stored, and the
// next steps go on.
func TestAPanicLeavesNothing(t *testing.T) {
	s := New(Options{})
	args := []byte(`{}`)
	job := nexjob.NewJob{ID: nexjob.NewID(), Kind: "charge", Args: args, Fingerprint: nexjob.FingerprintOf(args)}
	func() {
		defer func() {
			if r := recover(); r != "half-way" {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = step(t.Context(), s, "panic", time.Now(), func(u *onewriter.Unit) (int, error) {
			if _, err := u.Enqueue(t.Context(), []nexjob.NewJob{job}); err != nil {
				return 0, err
			}
			if err := u.Flush(t.Context()); err != nil {
				return 0, err
			}
			panic("half-way")
		})
	}()
	if _, err := s.Put(t.Context(), time.Now(), []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "k", Name: "n"}}}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{})
	if err != nil || len(page.Jobs) != 0 {
		t.Errorf("after the panic: %v, %+v", err, page.Jobs)
	}
}

// TestATransactionDoesNotWaitForItself: what could only wait for the caller's own open
// transaction is refused at once, as on every engine.
func TestATransactionDoesNotWaitForItself(t *testing.T) {
	s := New(Options{})
	ctx, _ := nexjob.WithOpenTx(t.Context())
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := InTx(limited, s, func(*Tx) error {
		for verb, try := range map[string]func() error{
			"in tx":   func() error { return InTx(limited, s, func(*Tx) error { return nil }) },
			"enqueue": func() error { _, err := s.Enqueue(limited, time.Now(), nil); return err },
			"find":    func() error { _, err := s.Find(limited, time.Now(), nexjob.Query{}); return err },
		} {
			if err := try(); !errors.Is(err, nexjob.ErrInTransaction) {
				t.Errorf("%s is answered %v", verb, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
