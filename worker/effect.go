package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// Effect is something that a job does outside the database, such as charging a
// card, recorded so that it is never guessed whether it happened. It is recorded as
// intended before it is sent, under an outside key that is equal on every attempt
// of the operation, and as confirmed or refused afterwards. One effect is one call
// of one outside service.
//
// Say what the outside service offers: RepeatableFor if it treats a repeat under
// the same key as the same request, Lookup if it can be asked, AtMostOnce if it
// offers neither. An effect that says none of them is refused before it is sent.
type Effect[T any] struct {
	// Name and Item name the effect within the job; Item tells the turns of a loop
	// apart. A run may do each only once.
	Name, Item string
	// Request is what is sent, for its fingerprint; nil means the job's args. A
	// requeue or re-enqueue that asks for the same effect under another request is
	// refused with *nexjob.EffectMismatchError before anything is sent.
	Request any
	// Send sends the request under the key and returns the service's answer. It must
	// pass its context to the connection: the context ends before the lease does, so
	// that an attempt which was frozen cannot reach the wire when it thaws. nil means
	// that it happened; Refused or NotSent that it definitely did not; every other
	// error that nobody knows. A panic leaves the outcome unknown too.
	Send func(ctx context.Context, key string) (T, error)
	// RepeatableFor is how long after the first send the service knows the key.
	RepeatableFor time.Duration
	// Lookup asks the service whether the request under the key was applied, and must
	// not change anything there. Once RepeatableFor is over, or without it, it is asked
	// before anything is sent again.
	Lookup func(ctx context.Context, key string) (T, nexjob.Verdict, error)
	// LookupAfter is how long the service may take to show a request: only a
	// look-up that is asked so long after the newest send must have ended (its
	// deadline lies before the lease's end) may say NotApplied; before, that is taken
	// as still unknown. Applied counts at any time. Default 1 min.
	LookupAfter time.Duration
	// AtMostOnce says that it is never sent twice unless a look-up or a person has
	// ruled that it was not applied.
	AtMostOnce bool
}

const defaultLookupAfter = time.Minute

// Do sends the effect if it has not happened yet, and returns the service's answer:
// the one that was recorded if it has. The answer passes through JSON in either
// case, so that every attempt sees the same value.
//
// Return the error that it answers, wrapped with %w if at all: it decides whether
// the job is tried again, becomes Uncertain, or fails for a person to look at.
func (e Effect[T]) Do(ctx context.Context, run *Run) (T, error) {
	var none T
	wrap := func(err error) (T, error) { return none, fmt.Errorf("worker: effect %q: %w", e.label(), err) }
	if err := e.check(); err != nil {
		return wrap(Permanent(err))
	}
	request, err := e.fingerprint(run)
	if err != nil {
		return wrap(Permanent(err))
	}
	sending := &sending{
		run: run, name: e.Name, item: e.Item, request: request, repeatableFor: e.RepeatableFor,
		lookupAfter: e.LookupAfter, atMostOnce: e.AtMostOnce,
		send: func(ctx context.Context, key string) (encoded, error) {
			value, err := e.Send(ctx, key)
			if err != nil {
				return encoded{}, err
			}
			return encode(value), nil
		},
	}
	if sending.lookupAfter == 0 {
		sending.lookupAfter = defaultLookupAfter
	}
	if e.Lookup != nil {
		sending.lookup = func(ctx context.Context, key string) (encoded, nexjob.Verdict, error) {
			value, verdict, err := e.Lookup(ctx, key)
			if err != nil || verdict != nexjob.Applied {
				return encoded{}, verdict, err
			}
			return encode(value), verdict, nil
		}
	}
	receipt, err := sending.do(ctx)
	if err != nil {
		return wrap(err)
	}
	value, err := decode[T](receipt)
	if err != nil {
		return wrap(err)
	}
	return value, nil
}

func (e Effect[T]) label() string {
	if e.Item == "" {
		return e.Name
	}
	return e.Name + "/" + e.Item
}

// check finds what is wrong with the effect itself, before anything is recorded.
func (e Effect[T]) check() error {
	var none T
	switch {
	case e.Send == nil:
		return errors.New("its Send is nil")
	case e.RepeatableFor < 0 || e.LookupAfter < 0:
		return errors.New("RepeatableFor or LookupAfter is negative")
	case e.RepeatableFor == 0 && e.Lookup == nil && !e.AtMostOnce:
		return errors.New("it does not say what may be done when its outcome is not known, so it is not sent: " +
			"set RepeatableFor if the service treats a repeat under the same key as the same request, " +
			"Lookup if the service can be asked, or AtMostOnce if it offers neither")
	case e.RepeatableFor > 0 && e.AtMostOnce:
		return errors.New("RepeatableFor and AtMostOnce contradict each other: keep one")
	}
	if err := nexjob.ValidateName("effect name", e.Name); err != nil {
		return err
	}
	if e.Item != "" {
		if err := nexjob.ValidateName("item", e.Item); err != nil {
			return err
		}
	}
	// Some types have values that do not encode, such as their zero; only one that
	// never does is a mistake.
	var never *json.UnsupportedTypeError
	if _, err := marshal(none); errors.As(err, &never) {
		return fmt.Errorf("its answer could not be kept: %w", err)
	}
	return nil
}

func (e Effect[T]) fingerprint(run *Run) (nexjob.Fingerprint, error) {
	if e.Request == nil {
		return run.job.fingerprint, nil
	}
	text, err := json.Marshal(e.Request)
	if err != nil {
		return nexjob.Fingerprint{}, fmt.Errorf("its request does not encode: %w", err)
	}
	return nexjob.CanonicalFingerprint(text)
}

// None is the answer of an effect that has none.
type None struct{}

// NoResult makes the Send of an effect that has no answer, as in
// Effect[None]{Send: NoResult(mail)}.
func NoResult(f func(ctx context.Context, key string) error) func(context.Context, string) (None, error) {
	return func(ctx context.Context, key string) (None, error) { return None{}, f(ctx, key) }
}

// Refused says that the outside service definitely did not apply the request and
// will not, whatever became of earlier calls under its key: the key is finished, and a
// later try sends under the next one, because services replay a refusal that they have
// stored. A rate limit (429) is none: it says nothing of an earlier call that may have
// been applied; that is NotSent. Where asking again makes no sense, as with a card that
// is declined for good, say so too: Permanent(Refused(err)). Refused(nil) is nil.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err: err}
}

// NotSent says that this call has done nothing; of earlier ones it says nothing, and
// their key stays. The worker knows it by itself of errors in dialling, name look-up
// and TLS set-up. NotSent(nil) is nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err: err, unsent: true}
}

type refusedError struct {
	err    error
	unsent bool // only this call: an earlier send under the same key may have arrived
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// encoded is a value as it is kept. One that cannot be kept has a problem instead:
// its effect has happened all the same.
type encoded struct {
	value   []byte
	problem string
}

func encode(value any) encoded {
	text, err := marshal(value)
	if err != nil {
		return encoded{problem: err.Error()}
	}
	return encoded{value: text}
}

// marshal encodes a value whose own methods may panic: what has happened must not
// seem unknown because of it.
func marshal(value any) (text []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			text, err = nil, fmt.Errorf("encoding it panicked: %v", cause)
		}
	}()
	return json.Marshal(value)
}

// decode reads what a receipt keeps.
func decode[T any](receipt *nexjob.Receipt) (T, error) {
	var value T
	if len(receipt.Value) == 0 {
		if receipt.By != "" {
			return value, nil // a person's verdict came without a value
		}
		return value, Permanent(fmt.Errorf("it happened, but its answer could not be kept: %s", receipt.Error))
	}
	if err := json.Unmarshal(receipt.Value, &value); err != nil {
		return value, Permanent(fmt.Errorf("the code changed: the recorded value does not decode: %w", err))
	}
	return value, nil
}
