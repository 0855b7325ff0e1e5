package nexjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind is a job's named, typed sort: the same value is used to enqueue and to
// handle, so the args' type is checked by the compiler. Make one with KindOf.
type Kind[T any] struct {
	name     string
	defaults Defaults
}

// Defaults are what jobs of a kind get when an enqueue does not choose. The zero
// value is safe.
type Defaults struct {
	Queue           string
	Priority        Priority
	MaxAttempts     int           // default 10 tries in all; 1: no retry
	Timeout         time.Duration // of one attempt; default the worker's
	DeadlineAfter   time.Duration // default none
	DuplicatePolicy DuplicatePolicy
	KeepKeyFor      time.Duration // applies to jobs that have a key
	Retry           Retry         // how long to wait between tries
	Aliases         []string      // former names of the kind, still worked
}

// KindOf names a kind. It panics on a name that ValidateName refuses, as
// regexp.MustCompile does: kinds are declared in package variables.
func KindOf[T any](name string, defaults Defaults) Kind[T] {
	defaults.Aliases = slices.Clone(defaults.Aliases)
	for _, n := range append([]string{name}, defaults.Aliases...) {
		if err := ValidateName("kind", n); err != nil {
			panic(err)
		}
	}
	return Kind[T]{name: name, defaults: defaults}
}

// Name returns the kind's name.
func (k Kind[T]) Name() string { return k.name }

// Defaults returns the kind's defaults.
func (k Kind[T]) Defaults() Defaults { return k.defaults }

// New builds a job of this kind. Args are encoded as JSON at once; what does not
// encode, or not without loss, is answered by Enqueue. Options that are zero take
// the kind's defaults, so AllowAfterFailed cannot be chosen against a stricter
// default: name the stricter policy per enqueue instead.
func (k Kind[T]) New(args T, options Options) NewJob {
	job := NewJob{Kind: k.name, Aliases: k.defaults.Aliases, Options: k.fill(options)}
	encoded, err := json.Marshal(args)
	switch {
	case err != nil:
		job.Err = invalid("args of kind "+k.name, err.Error(), "make the type encodable as JSON")
	case k.lost(encoded):
		job.Err = invalid("args of kind "+k.name, "a string is not valid UTF-8",
			"pass bytes as []byte, which is encoded as base64")
	default:
		job.Args = encoded
		job.Fingerprint, job.Err = argsFingerprint(encoded)
	}
	return job
}

// RawJob builds a job of a kind that is known by its name alone, from args that are
// one JSON value; none stands for {}. They are stored byte for byte and fingerprinted
// as Kind.New does it, so equal args from Go, HTTP and the command line are equal.
func RawJob(kind string, args []byte, options Options) NewJob {
	if len(args) == 0 {
		args = []byte("{}")
	}
	job := NewJob{Kind: kind, Args: args, Options: options}
	job.Fingerprint, job.Err = argsFingerprint(args)
	return job
}

// argsFingerprint looks at the size first: the work is bounded by MaxArgs.
func argsFingerprint(args []byte) (Fingerprint, error) {
	if err := validateArgs(args); err != nil {
		return Fingerprint{}, err
	}
	fingerprint, err := CanonicalFingerprint(args)
	if wrong, ok := errors.AsType[*InvalidError](err); ok {
		err = invalid("args", "as JSON: "+wrong.Why, wrong.Remedy)
	}
	return fingerprint, err
}

// lost reports whether the encoder wrote U+FFFD for a byte that is not UTF-8, as
// encoding/json does in silence: two different strings would become one. It escapes
// that substitute and no genuine U+FFFD. Where the escape was in a json.RawMessage
// it survives decoding and encoding; where it stands for a lost byte it does not.
func (k Kind[T]) lost(encoded []byte) bool {
	substitute := []byte(`\ufffd`)
	n := bytes.Count(encoded, substitute)
	if n == 0 {
		return false
	}
	var args T
	if json.Unmarshal(encoded, &args) != nil {
		return true
	}
	again, err := json.Marshal(args)
	return err != nil || bytes.Count(again, substitute) < n
}

func (k Kind[T]) fill(o Options) Options {
	d := k.defaults
	if o.Queue == "" {
		o.Queue = d.Queue
	}
	if o.Priority == 0 {
		o.Priority = d.Priority
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = d.MaxAttempts
	}
	if o.Timeout == 0 {
		o.Timeout = d.Timeout
	}
	if o.Deadline.IsZero() && o.DeadlineAfter == 0 {
		o.DeadlineAfter = d.DeadlineAfter
	}
	if o.DuplicatePolicy == AllowAfterFailed {
		o.DuplicatePolicy = d.DuplicatePolicy
	}
	if o.KeepKeyFor == 0 && o.IdempotencyKey != "" {
		o.KeepKeyFor = d.KeepKeyFor
	}
	return o
}

// Decode reads args that New encoded. Unknown fields are ignored, so that an older
// worker can read a newer producer's args; anything after the value is an error.
func (k Kind[T]) Decode(args []byte) (T, error) {
	var value T
	if err := json.Unmarshal(args, &value); err != nil {
		return value, fmt.Errorf("nexjob: args of kind %q do not decode: %w", k.name, err)
	}
	return value, nil
}
