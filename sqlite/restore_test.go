package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob"
)

// TestRestoredWhileOpen: the file is put back from a backup under an open store. What was
// remembered of it is forgotten, and no number of a lease is handed out twice.
func TestRestoredWhileOpen(t *testing.T) {
	h := handsOn(t)
	first := keyedJob("first")
	h.add(first)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := h.DB().ExecContext(t.Context(), `VACUUM INTO ?`, backup); err != nil {
		t.Fatal(err)
	}
	later := keyedJob("later")
	h.add(later)
	lost := h.claim(2)
	if len(lost) != 2 {
		t.Fatalf("%d jobs are claimed, want 2", len(lost))
	}
	conn, err := h.DB().Conn(t.Context())
	h.must(err)
	h.must(conn.Raw(func(c any) error {
		restore, err := c.(interface { //nolint:forcetypeassert,errcheck // the driver's
			NewRestore(from string) (*driver.Backup, error)
		}).NewRestore(backup)
		if err != nil {
			return err
		}
		if _, err := restore.Step(-1); err != nil {
			return err
		}
		return restore.Finish()
	}))
	h.must(conn.Close())
	renewals, err := h.Renew(t.Context(), h.now, h.now.Add(time.Minute), []nexjob.Lease{lost[0].Job.Lease(), lost[1].Job.Lease()})
	h.must(err)
	for _, r := range renewals {
		if r.Status != nexjob.Lost {
			t.Errorf("a lease that the file knows nothing of is answered %+v", r)
		}
	}
	h.add(later)
	for _, c := range h.claim(2) {
		for _, old := range lost {
			if c.Job.Fence <= old.Job.Fence {
				t.Errorf("the fence %d comes after %d was handed out", c.Job.Fence, old.Job.Fence)
			}
		}
	}
	sound(t, h.Store)
}
