package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"sync"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
)

// tellers is how many take the first arrivals of all orders to the storage at once: the
// first sends its share as one batch, the last is a process of its own.
const tellers = 5

// arrivals tells the storage of orders, as often as the input says, and remembers every
// answer. What follows an end is decided by the witness, who sees it.
type arrivals struct {
	client *nexjob.Client
	front  func(ctx context.Context) *exec.Cmd // a process that is cast.Front

	mu      sync.Mutex
	asking  int // enqueues that are not answered yet
	answers []cast.Answered
}

// first sends the lines that do not wait for a success, in an order drawn from the seed,
// from several goroutines and a process at once.
func (a *arrivals) first(ctx context.Context, lines []orders.Line, seed uint64) error {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l orders.Line) bool { return l.AfterSuccess })
	newRandom(seed, streamArrive).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	shares := make([][]orders.Line, tellers)
	for i, line := range lines {
		shares[i%tellers] = append(shares[i%tellers], line)
	}
	var telling sync.WaitGroup
	faults := make([]error, tellers)
	for i, share := range shares {
		name := fmt.Sprintf("front-%d", i+1)
		telling.Go(func() {
			switch i {
			case 0:
				faults[i] = a.tell(func() ([]cast.Answered, error) { return cast.TellAll(ctx, a.client, name, share) })
			case tellers - 1:
				faults[i] = a.tell(func() ([]cast.Answered, error) { return a.process(ctx, share) })
			default:
				for _, line := range share {
					if faults[i] = a.send(ctx, name, line); faults[i] != nil {
						return
					}
				}
			}
		})
	}
	telling.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

// send tells of one line. A refusal is remembered for the audit; an error of the storage
// ends the run.
func (a *arrivals) send(ctx context.Context, from string, line orders.Line) error {
	return a.tell(func() ([]cast.Answered, error) { return cast.Tell(ctx, a.client, from, line) })
}

// process has another process tell of lines.
func (a *arrivals) process(ctx context.Context, lines []orders.Line) ([]cast.Answered, error) {
	var in, words bytes.Buffer
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			return nil, fmt.Errorf("demo: encode an order: %w", err)
		}
		in.Write(append(text, '\n'))
	}
	cmd := a.front(ctx)
	cmd.Stdin, cmd.Stderr = &in, &words
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("demo: the second shop front: %w\nits last words:\n%s", err, &words)
	}
	var answers []cast.Answered
	for scanner := bufio.NewScanner(bytes.NewReader(out)); scanner.Scan(); {
		var answer cast.Answered
		if err := json.Unmarshal(scanner.Bytes(), &answer); err != nil {
			return nil, fmt.Errorf("demo: read an answer of the second shop front: %w", err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// tell counts enqueues as asked until their answers are there.
func (a *arrivals) tell(enqueue func() ([]cast.Answered, error)) error {
	a.mu.Lock()
	a.asking++
	a.mu.Unlock()
	answers, err := enqueue()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
	a.answers = append(a.answers, answers...)
	return err
}

// idle reports whether every enqueue has its answer.
func (a *arrivals) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asking == 0
}

// list returns the answers from the given one on.
func (a *arrivals) list(from int) []cast.Answered {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.answers[from:])
}
