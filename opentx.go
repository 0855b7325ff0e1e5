package nexjob

import (
	"context"
	"sync/atomic"
)

type openTxKey struct{}

// OpenTx counts the transactions that are open under one context, so that a call
// which needs a transaction of its own can refuse at once instead of waiting for
// itself. A worker puts one into each run's context; the InTx helpers of the
// engines count in it.
type OpenTx struct{ open atomic.Int64 }

// WithOpenTx returns a context that carries a counter of its own.
func WithOpenTx(ctx context.Context) (context.Context, *OpenTx) {
	gate := new(OpenTx)
	return context.WithValue(ctx, openTxKey{}, gate), gate
}

// EnterTx counts a transaction that the caller opened under ctx, until leave. The
// returned context carries the count also where ctx had no counter.
func EnterTx(ctx context.Context) (inside context.Context, leave func()) {
	gate, ok := ctx.Value(openTxKey{}).(*OpenTx)
	if !ok {
		ctx, gate = WithOpenTx(ctx)
	}
	gate.open.Add(1)
	return ctx, func() { gate.open.Add(-1) }
}

// InTx reports whether a transaction is open under ctx.
func InTx(ctx context.Context) bool {
	gate, ok := ctx.Value(openTxKey{}).(*OpenTx)
	return ok && gate.Open()
}

// Open reports whether a counted transaction is open.
func (g *OpenTx) Open() bool { return g.open.Load() > 0 }
