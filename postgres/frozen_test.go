package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
)

// TestFrozenStepsLetGo: in every step that is more than one statement the server ends the
// session of a process that does nothing more for ten seconds, whatever the session's own
// limit is, so that what a frozen process has locked is free again.
func TestFrozenStepsLetGo(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	})
	do(t, h.Pool(), `CREATE TABLE seen (what text, idle text);
		CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (tg_table_name || ' ' || tg_op, current_setting('idle_in_transaction_session_timeout'));
			RETURN NULL;
		END $$;
		CREATE TRIGGER see AFTER UPDATE ON nexjob_jobs FOR EACH STATEMENT EXECUTE FUNCTION see();
		CREATE TRIGGER see AFTER INSERT ON nexjob_keys FOR EACH STATEMENT EXECUTE FUNCTION see();
		CREATE TRIGGER see AFTER INSERT ON nexjob_receipts FOR EACH STATEMENT EXECUTE FUNCTION see();
		CREATE TRIGGER see AFTER INSERT ON nexjob_entries FOR EACH STATEMENT EXECUTE FUNCTION see()`)
	for _, step := range []struct {
		what, writes string
		do           func()
	}{
		{"a batch that holds a key twice", "nexjob_keys INSERT", func() { h.add(job("a"), job("b"), job("a")) }},
		{"an entry", "nexjob_entries INSERT", func() {
			_, err := h.Put(t.Context(), *h.now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "worker", Name: "w"}}})
			h.must(err)
		}},
		{"an action", "nexjob_jobs UPDATE", func() {
			h.do(nexjob.Query{Key: "a"}, nexjob.Action{Act: nexjob.ActReschedule, DueAt: h.now.Add(time.Hour)})
		}},
	} {
		step.do()
		if idle := ask[string](t, h.Pool(), `SELECT coalesce(string_agg(DISTINCT idle, ', '), 'none') FROM seen
			WHERE what = '`+step.writes+`'`); idle != "10s" {
			t.Errorf("%s may do nothing for %s", step.what, idle)
		}
	}
	c := h.claim(1)[0]
	do(t, h.Pool(), `TRUNCATE seen`)
	_, err := h.Record(t.Context(), *h.now, []nexjob.Receipt{{
		Operation: c.Job.Operation, Sort: nexjob.StepReceipt, Name: "step", Fingerprint: c.Job.Fingerprint,
		State: nexjob.Confirmed, Writer: c.Job.Lease(), Value: []byte("1"),
	}})
	h.must(err)
	h.end(c, nexjob.EndFailed)
	if idle := ask[string](t, h.Pool(), `SELECT string_agg(DISTINCT idle, ', ') FROM seen`); idle != "10s" {
		t.Errorf("a receipt, or a failure, may do nothing for %s", idle)
	}
}
