package sqlite

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
)

// TestDueReadsWhatIsThere: a claim leaves columns unread where it takes a job for fresh.
// So whichever column of a due job differs from a new job's, a claim finds it.
func TestDueReadsWhatIsThere(t *testing.T) {
	s := testStore(t, Options{})
	ctx := t.Context()
	kind := nexjob.KindOf[struct{}]("charge", nexjob.Defaults{})
	answers, err := nexjob.NewClient(s, nexjob.ClientOptions{}).EnqueueMany(ctx, []nexjob.NewJob{
		kind.New(struct{}{}, nexjob.Options{IdempotencyKey: "a"}),
		kind.New(struct{}{}, nexjob.Options{IdempotencyKey: "b"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]any{
		"id": bytes.Repeat([]byte{1}, 16), "kind": "ship", "queue": "slow", "priority": 1, "state": 4,
		"operation": bytes.Repeat([]byte{2}, 16), "fingerprint": bytes.Repeat([]byte{3}, 32),
		"more": `{"snoozes":1}`, "tags": `["vip"]`, "meta": `{"a":"b"}`, "args": []byte("{}"), "key": []byte("c"),
		"due_at": time.Now().Add(-time.Hour).UnixMicro(), "flags": flagStarted,
	}
	rows, err := s.db.QueryContext(ctx, "SELECT name, type FROM pragma_table_info('nexjob_jobs')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns := make(map[string]any)
	for rows.Next() {
		var name, sort string
		if err := rows.Scan(&name, &sort); err != nil {
			t.Fatal(err)
		}
		columns[name] = other[name]
		if columns[name] == nil {
			columns[name] = map[string]any{"INTEGER": 77, "TEXT": "text", "BLOB": []byte("blob")}[sort]
		}
	}
	if err := rows.Err(); err != nil || len(columns) < 30 {
		t.Fatal(err, columns)
	}
	delete(columns, "seq")
	for name, value := range columns {
		for _, kinds := range [][]string{{"charge"}, {"charge", "ship"}} {
			t.Run(fmt.Sprint(name, " ", kinds), func(t *testing.T) {
				differing(t, s, answers[0].ID, name, value, kinds)
			})
		}
	}
}

// differing changes a column of a job for a moment and looks for what is due.
func differing(t *testing.T, s *Store, id nexjob.ID, column string, value any, kinds []string) {
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "UPDATE nexjob_jobs SET "+column+" = ? WHERE id = ?", value, id[:]); err != nil {
		t.Fatal(err)
	}
	r := &rows{session: &session{sheet: s.sheet, on: tx}}
	queue := "default"
	if column == "queue" {
		queue = "slow"
	}
	due, err := r.Due(t.Context(), time.Now(), queue, kinds, 10)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]nexjob.ID, len(due))
	for i := range due {
		ids[i] = due[i].ID
	}
	whole, err := r.jobs(t.Context(), "jobs by id", 0, hexIDs(ids))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, due); diff != "" {
		t.Errorf("a claim misreads (-stored +claimed):\n%s", diff)
	}
	if hidden := column == "kind" && len(kinds) == 1; len(due) == 0 || !hidden && column != "queue" && len(due) != 2 {
		t.Errorf("%d jobs are due", len(due))
	}
}
