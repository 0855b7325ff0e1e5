package sqlite_test

import (
	"context"
	"testing"

	"github.com/nexjob/nexjob/sqlite"
)

// sound asserts what the tables say of one another.
func sound(t testing.TB, s *sqlite.Store) {
	t.Helper()
	for broken, query := range map[string]string{
		"keys name a job that is stored under them": `SELECT count(*) FROM nexjob_keys k
			WHERE ended IS NULL AND NOT EXISTS (SELECT 1 FROM nexjob_jobs j WHERE j.id = k.job AND j.key = k.key)`,
		"keys that outlived their job tell its kind": `SELECT count(*) FROM nexjob_keys
			WHERE ended IS NOT NULL AND (kind IS NULL OR fingerprint IS NULL OR operation IS NULL)`,
		"active jobs hold their keys": `SELECT count(*) FROM nexjob_jobs j WHERE state < 5 AND key IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM nexjob_keys k WHERE k.key = j.key AND k.job = j.id)`,
		"former jobs of a key are told": `SELECT count(*) FROM nexjob_jobs j WHERE key IS NOT NULL AND past = 0
			AND NOT EXISTS (SELECT 1 FROM nexjob_keys k WHERE k.key = j.key AND k.job = j.id)`,
		"attempts are counted": `SELECT count(*) FROM nexjob_jobs j
			WHERE attempts <> (SELECT count(*) FROM nexjob_attempts a WHERE a.job = j.id)`,
		"no attempt is told twice": `SELECT count(*) FROM nexjob_jobs j JOIN nexjob_attempts a
			ON a.job = j.id AND a.fence = j.fence WHERE j.flags & 32`,
		"bodies are told": `SELECT count(*) FROM nexjob_jobs j
			WHERE (flags & 16 <> 0) <> EXISTS (SELECT 1 FROM nexjob_bodies b WHERE b.seq = j.seq)`,
		"bodies stand in one place": `SELECT count(*) FROM nexjob_jobs
			WHERE flags & 16 AND (args IS NOT NULL OR tags IS NOT NULL OR meta IS NOT NULL)`,
		"results are told": `SELECT count(*) FROM nexjob_jobs j
			WHERE (flags & 8 <> 0) <> EXISTS (SELECT 1 FROM nexjob_results r WHERE r.job = j.id)`,
		"bodies have jobs":   `SELECT count(*) FROM nexjob_bodies WHERE seq NOT IN (SELECT seq FROM nexjob_jobs)`,
		"results have jobs":  `SELECT count(*) FROM nexjob_results WHERE job NOT IN (SELECT id FROM nexjob_jobs)`,
		"attempts have jobs": `SELECT count(*) FROM nexjob_attempts WHERE job NOT IN (SELECT id FROM nexjob_jobs)`,
		"links have jobs":    `SELECT count(*) FROM nexjob_parents WHERE child NOT IN (SELECT id FROM nexjob_jobs)`,
		"leases are those of jobs at work": `SELECT count(*) FROM nexjob_jobs
			WHERE (state = 2) <> (lease_until IS NOT NULL)`,
		"receipts are held": `SELECT count(*) FROM nexjob_receipts r
			WHERE operation NOT IN (SELECT coalesce(operation, id) FROM nexjob_jobs)
			AND operation NOT IN (SELECT operation FROM nexjob_keys WHERE ended IS NOT NULL)`,
		"the file is whole": `SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
	} {
		var n int
		err := s.DB().QueryRowContext(context.WithoutCancel(t.Context()), query).Scan(&n)
		if err != nil || n != 0 {
			t.Errorf("%s: not so for %d rows (%v)", broken, n, err)
		}
	}
}
