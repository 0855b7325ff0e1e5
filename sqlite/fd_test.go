package sqlite_test

import (
	"os"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// TestCloseLeavesNoFileOpen: a program that opens stores again and again must not
// run out of files.
func TestCloseLeavesNoFileOpen(t *testing.T) {
	const descriptors = "/proc/self/fd"
	count := func() int {
		entries, err := os.ReadDir(descriptors)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if _, err := os.Stat(descriptors); err != nil {
		t.Logf("this system does not list open files: %v", err)
		return
	}
	use := func() {
		s, err := sqlite.Open(t.Context(), file(t), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		enqueue(t, s, keyedJob("k"))
		if _, err := s.Find(t.Context(), time.Now(), nexjob.Query{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
			Worker: "w", N: 1, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"k"},
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	use()
	before := count()
	for range 20 {
		use()
	}
	if after := count(); after > before+2 {
		t.Errorf("20 stores that were opened, used and closed left %d files open", after-before)
	}
}
