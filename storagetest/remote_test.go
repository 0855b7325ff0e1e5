package storagetest_test

import (
	"io"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

// piped serves a memory store through a pair of pipes, so that the protocol itself
// has to keep the contract.
func piped() storagetest.Harness {
	return storagetest.Harness{Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		served := make(chan error, 1)
		go func() {
			err := storagetest.Serve(inRead, outWrite, func(clock func() time.Time) (nexjob.Storage, error) {
				return memory.New(memory.Options{Clock: clock}), nil
			})
			_ = outWrite.CloseWithError(io.EOF)
			served <- err
		}()
		s := storagetest.Remote(inWrite, outRead, clock)
		t.Cleanup(func() {
			_ = s.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		return s
	}}
}

func TestRemote(t *testing.T) { storagetest.Run(t, piped()) }

func TestRemoteLinearizable(t *testing.T) { storagetest.Linearizable(t, piped(), 50) }

func TestCompare(t *testing.T) { storagetest.Compare(t, inMemory(), piped(), 60) }
