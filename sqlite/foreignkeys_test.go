package sqlite_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// TestForeignKeys: those between the user's tables are held in every transaction of DB, a
// refused row takes the job with it, and retention does not mind who refers to a job.
func TestForeignKeys(t *testing.T) {
	s := open(t, file(t), sqlite.Options{ForeignKeys: true})
	_, err := s.DB().ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER PRIMARY KEY);
		CREATE TABLE lines (order_id INTEGER NOT NULL REFERENCES orders);
		CREATE TABLE notes (job BLOB NOT NULL REFERENCES nexjob_jobs (id) ON DELETE CASCADE);
		INSERT INTO orders VALUES (1)`)
	if err != nil {
		t.Fatal(err)
	}
	job := keyedJob("k")
	for order, want := range map[int]bool{1: true, 2: false} {
		err := s.InTx(t.Context(), func(tx *sql.Tx) error {
			next := keyedJob(fmt.Sprint("order ", order))
			if order == 1 {
				next = job
			}
			if err := enqueueIn(t.Context(), s, tx, next); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO notes VALUES (?)`, next.ID[:]); err != nil {
				return err
			}
			_, err := tx.ExecContext(t.Context(), `INSERT INTO lines VALUES (?)`, order)
			return err
		})
		if (err == nil) != want {
			t.Errorf("a line of order %d is answered %v", order, err)
		}
	}
	if jobs := stored(t, s); len(jobs) != 1 || jobs[0].ID != job.ID {
		t.Fatalf("stored: %+v", jobs)
	}
	for _, act := range []nexjob.Act{nexjob.ActCancel, nexjob.ActPurge} {
		amended, err := s.Amend(t.Context(), time.Now(), nexjob.Query{IDs: []nexjob.ID{job.ID}}, nexjob.Action{Act: act}, 1)
		if err != nil || amended.Done() != 1 {
			t.Fatalf("%s: %v, %+v", act, err, amended)
		}
	}
	notes := 0
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM notes`).Scan(&notes); err != nil || notes != 1 {
		t.Errorf("%d notes of the job that was removed, want the one of before: %v", notes, err)
	}
}
