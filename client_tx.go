package nexjob

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var errNoTx = errors.New("there is none; wrap an open one as the engine says, such as with sqlite.Tx or postgres.Tx")

// TxClient enqueues inside a transaction of the caller: its jobs are visible on
// commit and gone on rollback. Make one with Client.In for each transaction; like
// the transaction it serves one goroutine.
type TxClient struct {
	client *Client
	joined Joined
	err    error // of Join
}

// In returns the client inside the caller's open transaction, which it never
// commits or rolls back. A transaction that the engine does not take, or not in
// this state, is answered by each call.
func (c *Client) In(tx Tx) *TxClient {
	joined, err := c.join(tx)
	if err != nil {
		err = fmt.Errorf("nexjob: join the transaction: %w", err)
	}
	return &TxClient{client: c, joined: joined, err: err}
}

func (c *Client) join(tx Tx) (Joined, error) {
	switch {
	case c.store == nil:
		return nil, errNoStorage
	case tx == nil:
		return nil, errNoTx
	}
	return c.store.Join(tx)
}

// Enqueue adds a job as Client.Enqueue does, on commit. After an error of the
// storage roll back and begin anew: nothing is repeated inside the transaction. Call
// Answer.Wake after the commit, or let the next poll find the job. While another
// transaction holds the key, the call waits for its outcome. The decision about a
// duplicate is counted at once and stays counted when the transaction rolls back.
func (t *TxClient) Enqueue(ctx context.Context, job NewJob) (Answer, error) {
	if err := t.usable(); err != nil {
		return Answer{}, err
	}
	answer, err := t.client.enqueueOne(ctx, t.joined, 1, job)
	t.bell(&answer)
	return answer, err
}

// EnqueueMany adds jobs as Client.EnqueueMany does, on commit. Enqueue many keys in
// one batch rather than one by one: two transactions that take the same keys in
// opposite order dead-lock.
func (t *TxClient) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Answer, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	answers, err := t.client.enqueueMany(ctx, t.joined, 1, jobs)
	for i := range answers {
		t.bell(&answers[i])
	}
	return answers, err
}

// Find returns one page as the transaction sees it.
func (t *TxClient) Find(ctx context.Context, q Query) (Page, error) {
	if t.err != nil {
		return Page{}, t.err
	}
	var page Page
	err := t.client.time.DoIn(ctx, t.joined, func(now time.Time) (err error) {
		page, err = t.joined.Find(ctx, now, q)
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("nexjob: find: %w", err)
	}
	return page, nil
}

func (t *TxClient) usable() error {
	if t.err == nil && t.client.closed.Load() {
		return fmt.Errorf("nexjob: enqueue: %w", ErrClosed)
	}
	return t.err
}

// bell gives an answer that made work its Wake.
func (t *TxClient) bell(answer *Answer) {
	if answer.Outcome == Created || answer.Outcome == Replaced {
		answer.wake = t.client.ring
	}
}
