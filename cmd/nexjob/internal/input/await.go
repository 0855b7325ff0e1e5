package input

import (
	"context"
	"io"
)

// Await returns what do returns or, as soon as ctx ends, the context's error. A read of a
// terminal, or the opening of a named pipe, can last for ever and cannot be called off:
// so do goes on unheard then, until it returns or the process ends.
func Await[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() { // ends with do
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// Until returns a reader of r that waits for r no longer than ctx lasts. What r has read
// when ctx ends may be lost.
func Until(ctx context.Context, r io.Reader) io.Reader {
	own := make([]byte, 32<<10) // a read that goes on unheard must not write into the caller's
	return readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err // own may still be written into
		}
		part := own[:min(len(b), len(own))]
		n, err := Await(ctx, func() (int, error) { return r.Read(part) })
		return copy(b, part[:n]), err
	})
}

type readerFunc func([]byte) (int, error)

// Read calls the function.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
