package worker

import (
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// Health is how a worker stands at one moment.
type Health struct {
	Name     string
	Running  bool // Run works and has not been told to stop
	Stopping bool
	Started  time.Time

	Slots     int
	Busy      int     // slots taken, stuck handlers included
	Waiting   int     // jobs claimed ahead, leased and not started
	Unsettled int     // attempts whose end is not written yet
	Stuck     []Stuck // handlers that ignore that their context has ended

	LastClaim   time.Time // when the storage last answered a claim
	LastError   string    // of the newest storage call that failed
	LastErrorAt time.Time
	ClockOffset time.Duration // the storage's clock minus the host's

	Counts
}

// Counts are what a worker has counted since it started.
type Counts struct {
	Claimed     int64 // jobs whose handler was started
	Succeeded   int64 // settlements written, by what became of the job
	Failed      int64
	Retried     int64
	Snoozed     int64
	Interrupted int64
	Uncertain   int64
	Cancelled   int64

	ClaimsDropped      int64 // claims given back unrun: late, no slot came free in time, or the worker was stopping
	LeasesLost         int64 // leases lost before the handler returned, or was started
	StaleWritesRefused int64 // settlements and receipts that the fence refused
	LetGo              int64 // settlements that could not be written before their lease ended
	TimedOut           int64 // attempts settled while their handler ignored the time-out
	LateResults        int64 // results of handlers whose attempt had already ended
	Panics             int64
	StorageErrors      int64
}

// Stuck is a handler that has not returned although its context ended at least a
// grace ago. It holds its slot until it does.
type Stuck struct {
	Job     nexjob.ID
	Kind    string
	Fence   int64
	Started time.Time
	Told    time.Time // when its context ended
	Why     string
}

// stats holds what Health shows.
type stats struct {
	mu          sync.Mutex
	counts      Counts
	lastClaim   time.Time
	lastError   string
	lastErrorAt time.Time
	offset      time.Duration
}

// count changes the counts under their lock.
func (s *stats) count(change func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// failed notes a storage call that failed.
func (s *stats) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.StorageErrors++
	s.lastError, s.lastErrorAt = nexjob.CutText(err.Error(), nexjob.MaxError), time.Now()
}

// claimed notes that the storage has answered a claim.
func (s *stats) claimed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastClaim = time.Now()
}

// clock notes a reading of the storage's time.
func (s *stats) clock(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = time.Until(now)
}

// Health tells how the worker stands. It asks nobody and may be called at any time.
func (w *Worker) Health() Health {
	w.mu.Lock()
	h := Health{
		Name: w.name, Running: w.state == working, Stopping: w.state == stopping, Started: w.startAt,
		Slots: int(w.slots.Load()),
	}
	w.mu.Unlock()
	h.Busy, h.Waiting, h.Unsettled = w.board.running(), w.board.waiting(), w.board.unsettled()
	h.Stuck = w.board.stuck(w.options.Grace, false)
	w.stats.mu.Lock()
	defer w.stats.mu.Unlock()
	h.LastClaim, h.LastError, h.LastErrorAt = w.stats.lastClaim, w.stats.lastError, w.stats.lastErrorAt
	h.ClockOffset, h.Counts = w.stats.offset, w.stats.counts
	return h
}

// storageFailed notes and logs a storage call of one of the lanes that failed.
func (w *Worker) storageFailed(what string, err error) {
	w.stats.failed(err)
	w.log.Warn("storage call failed; it is tried again", "worker", w.name, "call", what, "error", err.Error())
}
