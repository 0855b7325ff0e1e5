-- The statements of the SQLite engine. A line "-- name:" begins a statement and a
-- line "-- part:" a piece that others take in by {its name}. Lists go in as one JSON
-- array; IDs and keys in it are hexadecimal, for JSON holds no bytes.

-- part: job
j.seq, j.id, j.state, j.kind, j.queue, j.priority, j.key, j.operation, j.fingerprint,
  j.enqueued_at, j.due_at, j.deadline, j.timeout_ns, j.max_attempts, j.fence, j.worker,
  j.started_at, j.ended_at, j.lease_until, j.lease_ns, j.flags, j.tries, j.crashes, j.attempts,
  j.settled_fence, j.settled_as, j.open_effects, j.receipts, j.receipt_bytes, j.reason, j.more,
  j.args, j.tags, j.meta

-- part: due
-- Each column that is read has its price, and most jobs that are claimed are fresh: all that
-- is not read of them is as "add job" makes it. The others are read whole.
j.seq, j.id, j.kind, j.key, j.fingerprint, j.enqueued_at, j.due_at, j.timeout_ns, j.max_attempts, j.args,
  CASE WHEN j.state = 1 AND j.flags = 0 AND j.fence = 0 AND j.more = '' AND j.reason = ''
    AND j.operation IS NULL AND j.deadline IS NULL AND j.tags IS NULL AND j.meta IS NULL
    AND j.worker = '' AND j.lease_ns = 0 AND j.tries = 0 AND j.crashes = 0 AND j.attempts = 0
    AND j.settled_fence = 0 AND j.settled_as = 0
    AND j.open_effects = 0 AND j.receipts = 0 AND j.receipt_bytes = 0
    AND j.started_at IS NULL AND j.ended_at IS NULL AND j.lease_until IS NULL
  THEN 1 ELSE 0 END

-- Reading jobs.

-- name: jobs by id
SELECT {job} FROM json_each(?) e CROSS JOIN nexjob_jobs j ON j.id = unhex(e.value)

-- name: jobs due
-- One queue, priority and kind, in the order of the index.
SELECT {due}
FROM nexjob_jobs j INDEXED BY nexjob_jobs_due
WHERE j.queue = ? AND j.priority = ? AND j.kind = ?
  AND j.due_at IS NOT NULL AND j.state IN (1, 4) AND j.due_at <= ?
ORDER BY j.due_at, j.id LIMIT ?

-- name: places due
-- One queue and priority: the first few of each kind, then the first of them all.
SELECT j.seq FROM json_each(?1) k
  CROSS JOIN nexjob_jobs j ON j.seq IN (
    SELECT d.seq FROM nexjob_jobs d INDEXED BY nexjob_jobs_due
    WHERE d.queue = ?2 AND d.priority = ?3 AND d.kind = k.value
      AND d.due_at IS NOT NULL AND d.state IN (1, 4) AND d.due_at <= ?4
    ORDER BY d.due_at, d.id LIMIT ?5)
ORDER BY j.due_at, j.id LIMIT ?5

-- name: jobs at
SELECT {job} FROM json_each(?) e CROSS JOIN nexjob_jobs j ON j.seq = e.value

-- name: due at
SELECT {due} FROM json_each(?) e CROSS JOIN nexjob_jobs j ON j.seq = e.value

-- name: priorities due
-- The priorities of a queue that have a due job of the kinds.
SELECT p.value FROM json_each('[1,2,3,4]') p
WHERE EXISTS (SELECT 1 FROM json_each(?1) k CROSS JOIN nexjob_jobs d INDEXED BY nexjob_jobs_due
  ON d.queue = ?2 AND d.priority = p.value AND d.kind = k.value
    AND d.due_at IS NOT NULL AND d.state IN (1, 4) AND d.due_at <= ?3)
ORDER BY p.value

-- name: anything to claim
-- Whether a claim would find a due job or a lease that ended, and the last write.
SELECT
  EXISTS (SELECT 1 FROM nexjob_jobs INDEXED BY nexjob_jobs_lease WHERE lease_until <= ?1),
  EXISTS (SELECT 1 FROM json_each(?2) q CROSS JOIN json_each('[1,2,3,4]') p CROSS JOIN json_each(?3) k
    CROSS JOIN nexjob_jobs d INDEXED BY nexjob_jobs_due
    ON d.queue = q.value AND d.priority = p.value AND d.kind = k.value
      AND d.due_at IS NOT NULL AND d.state IN (1, 4) AND d.due_at <= ?1),
  (SELECT number FROM nexjob_meta WHERE name = 'pulse')

-- name: next due
-- The first due time after now: of each queue, priority and kind, then of them all.
SELECT min((SELECT d.due_at FROM nexjob_jobs d INDEXED BY nexjob_jobs_due
  WHERE d.queue = q.value AND d.priority = p.value AND d.kind = k.value
    AND d.due_at IS NOT NULL AND d.state IN (1, 4) AND d.due_at > ?1
  ORDER BY d.due_at LIMIT 1))
FROM json_each(?2) q CROSS JOIN json_each('[1,2,3,4]') p CROSS JOIN json_each(?3) k

-- name: jobs leased
SELECT {job} FROM nexjob_jobs j INDEXED BY nexjob_jobs_lease
WHERE j.lease_until <= ? ORDER BY j.lease_until, j.id LIMIT ?

-- name: first child
-- NULL where no job has parents.
SELECT min(child) FROM nexjob_parents

-- name: children
SELECT {job} FROM nexjob_jobs j
WHERE j.state = 3 AND j.id IN (
  SELECT p.child FROM json_each(?) e
    CROSS JOIN nexjob_parents p ON p.parent = unhex(e.value) AND p.decided = 0)
ORDER BY j.id

-- name: attempts
SELECT a.job, a.fence, a.worker, a.started, a.ended, a.ending, a.error
FROM json_each(?) e CROSS JOIN nexjob_attempts a ON a.job = unhex(e.value)
ORDER BY a.job, a.fence

-- name: parents
SELECT p.child, p.parent, p.rule, p.decided
FROM json_each(?) e CROSS JOIN nexjob_parents p ON p.child = unhex(e.value)
ORDER BY p.child, p.place

-- name: results
SELECT r.job, r.result FROM json_each(?) e CROSS JOIN nexjob_results r ON r.job = unhex(e.value)

-- name: bodies
SELECT j.id, b.args, b.tags, b.meta
FROM json_each(?) e CROSS JOIN nexjob_jobs j ON j.id = unhex(e.value)
  CROSS JOIN nexjob_bodies b ON b.seq = j.seq

-- name: place
SELECT seq, flags FROM nexjob_jobs WHERE id = ?

-- name: newest
-- The bounds of what is stored: a job above them is new.
SELECT (SELECT max(seq) FROM nexjob_jobs), (SELECT max(id) FROM nexjob_jobs)

-- Searching jobs: conditions are added, see search.go.

-- name: search jobs
SELECT {job} FROM nexjob_jobs j

-- name: search ids
SELECT j.seq FROM nexjob_jobs j

-- name: count jobs
SELECT j.queue, j.kind, CASE WHEN j.state = 1 AND j.due_at > ? THEN 9 ELSE j.state END AS reported,
  count(*), min(j.due_at)
FROM nexjob_jobs j

-- name: search keys
SELECT {key} FROM nexjob_keys k {of its job}

-- name: search receipts
SELECT {receipt} FROM nexjob_receipts r

-- Writing jobs. Each of the updates sets no more than its name says, so that the
-- indexes of other columns are left alone.

-- name: add job
-- What a new job has of its own; the rest are defaults. Jobs that differ in no more than
-- the last four go in together: see sheet.go.
INSERT INTO nexjob_jobs (seq, state, kind, queue, priority, operation, enqueued_at, due_at,
  deadline, timeout_ns, max_attempts, flags, more, tags, meta, id, key, fingerprint, args)
VALUES (?1 + 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?, ?, ?, ?)

-- name: put body
INSERT INTO nexjob_bodies (seq, args, tags, meta) VALUES (?, ?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET args = excluded.args, tags = excluded.tags, meta = excluded.meta

-- name: change body
UPDATE nexjob_jobs SET args = ?, tags = ?, meta = ? WHERE seq = ?

-- name: lease job
UPDATE nexjob_jobs SET state = ?, fence = ?, worker = ?, started_at = ?, lease_until = ?,
  lease_ns = ?, flags = ? WHERE seq = ?

-- name: lease jobs
-- Jobs in order of their fences, which follow one another.
UPDATE nexjob_jobs SET state = 2, fence = ?1 + e.key, worker = ?2, started_at = ?3, lease_until = ?4,
  lease_ns = ?5, flags = flags | 1
FROM json_each(?6) e WHERE nexjob_jobs.seq = e.value

-- name: end jobs well
UPDATE nexjob_jobs SET state = 5, due_at = NULL, ended_at = ?1, lease_until = NULL, lease_ns = 0,
  flags = flags & ~4 | 32, reason = '', settled_fence = fence, settled_as = 1
WHERE seq IN (SELECT value FROM json_each(?2))

-- name: renew job
UPDATE nexjob_jobs SET lease_until = ?, lease_ns = ? WHERE seq = ?

-- name: count receipts
UPDATE nexjob_jobs SET open_effects = ?, receipts = ?, receipt_bytes = ? WHERE seq = ?

-- name: move job on
UPDATE nexjob_jobs SET state = ?, due_at = ?, ended_at = ?, lease_until = ?, lease_ns = ?, flags = ?,
  tries = ?, crashes = ?, attempts = ?, settled_fence = ?, settled_as = ?, reason = ?, more = ?
WHERE seq = ?

-- name: change job
UPDATE nexjob_jobs SET state = ?, kind = ?, queue = ?, priority = ?, key = ?, operation = ?,
  fingerprint = ?, enqueued_at = ?, due_at = ?, deadline = ?, timeout_ns = ?, max_attempts = ?,
  fence = ?, worker = ?, started_at = ?, ended_at = ?, lease_until = ?, lease_ns = ?, flags = ?,
  tries = ?, crashes = ?, attempts = ?, settled_fence = ?, settled_as = ?, open_effects = ?,
  receipts = ?, receipt_bytes = ?, reason = ?, more = ?
WHERE seq = ?

-- name: add attempt
INSERT INTO nexjob_attempts (job, fence, worker, started, ended, ending, error) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop old attempts
DELETE FROM nexjob_attempts WHERE job = ? AND fence < ?

-- name: drop attempt
DELETE FROM nexjob_attempts WHERE job = ? AND fence = ?

-- name: add parent
INSERT INTO nexjob_parents (child, place, parent, rule, decided) VALUES (?, ?, ?, ?, ?)

-- name: decide parent
UPDATE nexjob_parents SET decided = ? WHERE child = ? AND place = ?

-- name: put result
INSERT INTO nexjob_results (job, result) VALUES (?, ?)
ON CONFLICT (job) DO UPDATE SET result = excluded.result

-- name: drop body
DELETE FROM nexjob_bodies WHERE seq = ?

-- name: drop result
DELETE FROM nexjob_results WHERE job = ?

-- name: drop attempts
DELETE FROM nexjob_attempts WHERE job = ?

-- name: drop parents
DELETE FROM nexjob_parents WHERE child = ?

-- name: drop job
DELETE FROM nexjob_jobs WHERE seq = ?

-- Keys.

-- part: key
k.key, k.job, coalesce(k.kind, j.kind), coalesce(k.fingerprint, j.fingerprint),
  coalesce(k.operation, j.operation, k.job), k.ended, k.until, k.cleared

-- part: of its job
LEFT JOIN nexjob_jobs j ON k.ended IS NULL AND j.id = k.job

-- name: keys
SELECT {key} FROM json_each(?) e CROSS JOIN nexjob_keys k ON k.key = unhex(e.value)
  {of its job}

-- name: keys over
SELECT {key} FROM nexjob_keys k INDEXED BY nexjob_keys_until {of its job} WHERE k.until <= ?
ORDER BY k.until, k.key LIMIT ?

-- name: add key
-- The key of a stored job, which has the rest; the few rows that say more are changed next.
INSERT INTO nexjob_keys (key, job) VALUES (?, ?)

-- name: add keys of jobs
INSERT INTO nexjob_keys (key, job) SELECT key, id FROM nexjob_jobs WHERE seq BETWEEN ? AND ? AND key IS NOT NULL

-- name: change key
UPDATE nexjob_keys SET job = ?, kind = ?, fingerprint = ?, operation = ?, ended = ?, until = ?, cleared = ?
WHERE key = ?

-- name: leave key
-- A job that its key does not name any more.
UPDATE nexjob_jobs SET past = 1 WHERE id = ?

-- name: drop key
DELETE FROM nexjob_keys WHERE key = ?

-- Receipts.

-- part: receipt
r.operation, r.sort, r.name, r.item, r.turn, r.fingerprint, r.state, r.job, r.fence, r.value,
  r.error, r.verdict_by, r.at, r.outside_key, r.send_before, r.first_sent, r.repeatable_for_ns,
  r.lookup_after_ns, r.lookup, r.at_most_once

-- name: receipts
SELECT {receipt} FROM json_each(?) e CROSS JOIN nexjob_receipts r ON r.operation = unhex(e.value)
ORDER BY r.operation, r.slot

-- name: put receipt
INSERT INTO nexjob_receipts (operation, slot, sort, name, item, turn, fingerprint, state, job, fence,
  value, error, verdict_by, at, outside_key, send_before, first_sent, repeatable_for_ns,
  lookup_after_ns, lookup, at_most_once)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (operation, slot) DO UPDATE SET fingerprint = excluded.fingerprint, state = excluded.state,
  job = excluded.job, fence = excluded.fence, value = excluded.value, error = excluded.error,
  verdict_by = excluded.verdict_by, at = excluded.at, outside_key = excluded.outside_key,
  send_before = excluded.send_before, first_sent = excluded.first_sent,
  repeatable_for_ns = excluded.repeatable_for_ns, lookup_after_ns = excluded.lookup_after_ns,
  lookup = excluded.lookup, at_most_once = excluded.at_most_once

-- name: drop receipts
-- Of an operation that no job and no key holds.
DELETE FROM nexjob_receipts WHERE operation = ?1
  AND NOT EXISTS (SELECT 1 FROM nexjob_jobs j WHERE j.id = ?1 AND j.operation IS NULL)
  AND NOT EXISTS (SELECT 1 FROM nexjob_jobs j WHERE j.operation = ?1)
  AND NOT EXISTS (SELECT 1 FROM nexjob_keys k WHERE k.operation = ?1 AND k.ended IS NOT NULL)

-- Entries.

-- part: entry
kind, name, version, value, expires_at, updated_at

-- name: entry
SELECT {entry} FROM nexjob_entries WHERE kind = ? AND name = ?

-- name: entries
SELECT {entry} FROM nexjob_entries WHERE kind = ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY name

-- name: put entry
INSERT INTO nexjob_entries (kind, name, version, value, expires_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, value = excluded.value,
  expires_at = excluded.expires_at, updated_at = excluded.updated_at

-- name: drop entry
DELETE FROM nexjob_entries WHERE kind = ? AND name = ?

-- name: drop expired entries
DELETE FROM nexjob_entries WHERE rowid IN (
  SELECT rowid FROM nexjob_entries INDEXED BY nexjob_entries_expiry WHERE expires_at <= ? LIMIT ?)

-- What is remembered of the file itself.

-- name: draw fences
-- Above a floor that grows with the time at which stores are opened.
UPDATE nexjob_meta SET number = max(number, ?) + ? WHERE name = 'fence' RETURNING number

-- name: pulse
SELECT number, text FROM nexjob_meta WHERE name = 'pulse'

-- name: put pulse
UPDATE nexjob_meta SET number = ?, text = ? WHERE name = 'pulse'

-- name: rewind leases
UPDATE nexjob_jobs SET lease_until = ?1 + lease_ns / 1000 WHERE lease_until > ?1 + lease_ns / 1000

-- name: version
-- Changes when another connection has written.
PRAGMA data_version

-- name: begin
BEGIN IMMEDIATE

-- name: commit
COMMIT

-- name: roll back
ROLLBACK

-- name: meta
SELECT number, text FROM nexjob_meta WHERE name = ?

-- name: take the write lock
-- Changes nothing: what counts is that it is a write.
UPDATE nexjob_meta SET number = number WHERE name = ''
