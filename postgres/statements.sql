-- The statements of the PostgreSQL engine beside the functions of the schema, which are
-- the hot ones. A line "-- name:" begins a statement and a line "-- part:" a piece that
-- others take in by {its name}. "nexjob." stands for the schema and the prefix of names.

-- part: job
j.id, j.state, j.kind, j.queue, j.priority, j.key, j.operation, j.fingerprint, j.enqueued_at, j.due_at, j.deadline,
  j.timeout_ns, j.max_attempts, j.fence, j.worker, j.started_at, j.ended_at, j.lease_until, j.lease_ns, j.flags,
  j.tries, j.crashes, j.attempts, j.settled_fence, j.settled_as, j.open_effects, j.receipts, j.receipt_bytes,
  j.wished, j.keep_key_ns, j.reason, j.more, j.args, j.result, to_json(j.tags)::text, j.meta

-- Reading jobs.

-- name: lock jobs
SELECT {job} FROM nexjob.jobs j WHERE j.id = ANY ($1::uuid[]) ORDER BY j.id FOR NO KEY UPDATE OF j

-- name: lock free jobs
SELECT {job} FROM nexjob.jobs j WHERE j.id = ANY ($1::uuid[]) ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED

-- name: jobs by id
SELECT {job} FROM nexjob.jobs j WHERE j.id = ANY ($1::uuid[])

-- name: lock jobs leased
-- Those whose lease ended, unless it was renewed: that is looked at next, under the lock.
SELECT {job} FROM nexjob.jobs j
WHERE j.id IN (
  SELECT c.id FROM nexjob.jobs c
  WHERE c.state = 2 AND c.lease_until <= $1::bigint AND NOT EXISTS (
    SELECT 1 FROM nexjob.leases l WHERE l.job = c.id AND l.fence = c.fence AND l.until > $1::bigint)
  ORDER BY c.lease_until, c.id LIMIT $2::bigint)
  AND j.state = 2
ORDER BY j.id FOR NO KEY UPDATE OF j SKIP LOCKED

-- name: leases
SELECT l.job, l.fence, l.until, l.lease_ns FROM nexjob.leases l WHERE l.job = ANY ($1::uuid[])

-- name: sweep leases
DELETE FROM nexjob.leases l WHERE l.until <= $1::bigint AND NOT EXISTS (
  SELECT 1 FROM nexjob.jobs j WHERE j.id = l.job AND j.state = 2 AND j.fence = l.fence)

-- name: lock children
SELECT {job} FROM nexjob.jobs j
WHERE j.state = 3 AND j.id IN (
  SELECT p.child FROM nexjob.parents p WHERE p.parent = ANY ($1::uuid[]) AND NOT p.decided)
ORDER BY j.id FOR NO KEY UPDATE OF j

-- name: attempts
SELECT a.job, a.fence, a.worker, a.started, a.ended, a.ending, a.error
FROM nexjob.attempts a WHERE a.job = ANY ($1::uuid[]) ORDER BY a.job, a.fence

-- name: parents
SELECT p.child, p.parent, p.rule, p.decided
FROM nexjob.parents p WHERE p.child = ANY ($1::uuid[]) ORDER BY p.child, p.place

-- name: look
SELECT * FROM nexjob.look_1($1::uuid[], $2::bytea[])

-- name: keys and lives
-- What must be locked before the jobs themselves.
SELECT j.id, j.key, j.keep_key_ns FROM nexjob.jobs j WHERE j.id = ANY ($1::uuid[])

-- Searching jobs: conditions are added, see search.go.

-- name: search jobs
SELECT {job}, l.until, l.lease_ns FROM nexjob.jobs j
  LEFT JOIN nexjob.leases l ON j.state = 2 AND l.job = j.id AND l.fence = j.fence AND l.until > j.lease_until

-- name: search ids
SELECT j.id FROM nexjob.jobs j

-- name: count jobs
SELECT j.queue, j.kind, CASE WHEN j.state = 1 AND j.due_at > $1::bigint THEN 9 ELSE j.state END AS reported,
  count(*), min(j.due_at)
FROM nexjob.jobs j

-- name: search keys
SELECT {key} FROM nexjob.keys k {of its job} WHERE k.job IS NOT NULL

-- name: search receipts
SELECT {receipt} FROM nexjob.receipts r WHERE true

-- The hot steps.

-- name: enqueue
SELECT * FROM nexjob.enqueue_1($1::bigint, $2::boolean, $3::uuid[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bigint[],
  $8::smallint[], $9::text[], $10::text[], $11::smallint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
  $16::text[], $17::text[], $18::text[], $19::text, $20::boolean)

-- name: add
SELECT * FROM nexjob.add_1($1::bigint, $2::boolean, $3::uuid, $4::bytea, $5::bytea, $6::bytea, $7::bigint, $8::text,
  $9::text, $10::smallint, $11::bigint, $12::bigint, $13::bigint, $14::bigint, $15::text, $16::text, $17::text, $18::text)

-- name: claim
SELECT * FROM nexjob.claim_1($1::bigint, $2::boolean, $3::text[], $4::smallint[], $5::text[], $6::bigint[], $7::bigint,
  $8::bigint, $9::bigint, $10::text)

-- name: settle
SELECT o_id FROM nexjob.settle_1($1::bigint, $2::boolean, $3::uuid[], $4::bigint[], $5::bytea[], $6::text)

-- name: renew
SELECT o_id, o_until, o_flags, o_fence FROM nexjob.renew_1($1::bigint, $2::boolean, $3::uuid[], $4::bigint[], $5::bigint, $6::bigint)

-- name: next due
SELECT nexjob.next_due_1($1::bigint, $2::text[], $3::text[])

-- name: standing
-- How leases stand whose rows could not be locked.
SELECT j.id, j.fence, j.state, j.flags FROM nexjob.jobs j WHERE j.id = ANY ($1::uuid[])

-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: guard
SELECT nexjob.clock_1($1::bigint)

-- name: patience
-- How long a statement of this transaction waits for a lock; 0: for ever.
SELECT set_config('lock_timeout', $1::text, true)

-- name: plans
-- Plans stay on the indexes for the rest of the transaction, also while tables are new.
-- What must be walked whole then seems so dear that PostgreSQL would compile its plan. And
-- a process that freezes here lets go of its rows after a while.
SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
  set_config('idle_in_transaction_session_timeout', '10s', true)

-- Writing jobs, one JSON array of them at a time: bytes in it are hexadecimal.

-- part: columns
operation, due_at, deadline, timeout_ns, keep_key_ns, max_attempts, fence, worker, started_at, ended_at, lease_until,
  lease_ns, tries, crashes, attempts, open_effects, receipts, receipt_bytes, state, priority, settled_fence, settled_as,
  wished, kind, queue, fingerprint, reason, more

-- part: written
x.operation, x.due_at, x.deadline, x.timeout_ns, x.keep_key_ns, x.max_attempts, x.fence, x.worker, x.started_at,
  x.ended_at, x.lease_until, x.lease_ns, x.tries, x.crashes, x.attempts, x.open_effects, x.receipts, x.receipt_bytes,
  x.state, x.priority, x.settled_fence, x.settled_as, x.wished, x.kind, x.queue, decode(x.fingerprint, 'hex'), x.reason,
  x.more

-- part: record
json_to_recordset($1::text::json) AS x (id uuid, enqueued_at bigint, key text, flags integer, args text, result text,
  tags json, meta text, body boolean, ended boolean, operation uuid, due_at bigint, deadline bigint, timeout_ns bigint,
  keep_key_ns bigint, max_attempts integer, fence bigint, worker text, started_at bigint, ended_at bigint,
  lease_until bigint, lease_ns bigint, tries integer, crashes integer, attempts integer, open_effects integer,
  receipts integer, receipt_bytes integer, state smallint, priority smallint, settled_fence bigint, settled_as smallint,
  wished smallint, kind text, queue text, fingerprint text, reason text, more text)

-- name: add jobs
INSERT INTO nexjob.jobs (id, enqueued_at, key, flags, args, result, tags, meta, {columns})
SELECT x.id, x.enqueued_at, decode(x.key, 'hex'), x.flags, decode(x.args, 'hex'), decode(x.result, 'hex'),
  CASE WHEN x.tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(x.tags)) END, x.meta, {written}
FROM {record}
ON CONFLICT (id) DO NOTHING RETURNING id

-- name: change jobs
-- Flag 8 is the storage's own.
UPDATE nexjob.jobs j SET ({columns}) = ROW({written}), flags = (j.flags & 8) | x.flags,
  result = CASE WHEN x.ended THEN decode(x.result, 'hex') ELSE j.result END,
  args = CASE WHEN x.body THEN decode(x.args, 'hex') ELSE j.args END,
  tags = CASE WHEN x.body THEN CASE WHEN x.tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(x.tags)) END
    ELSE j.tags END,
  meta = CASE WHEN x.body THEN x.meta ELSE j.meta END
FROM {record} WHERE j.id = x.id RETURNING j.id

-- name: mark parents
UPDATE nexjob.jobs j SET flags = j.flags | 8 WHERE j.id = ANY ($1::uuid[]) AND j.flags & 8 = 0

-- name: add attempts
INSERT INTO nexjob.attempts (job, fence, worker, started, ended, ending, error)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::smallint[], $7::text[])

-- name: drop old attempts
DELETE FROM nexjob.attempts a USING unnest($1::uuid[], $2::bigint[]) AS x (job, fence)
WHERE a.job = x.job AND a.fence < x.fence

-- name: drop attempt
DELETE FROM nexjob.attempts a USING unnest($1::uuid[], $2::bigint[]) AS x (job, fence)
WHERE a.job = x.job AND a.fence = x.fence

-- name: add parents
INSERT INTO nexjob.parents (child, place, parent, rule, decided)
SELECT x.child, x.place, x.parent, x.rule, x.decided = 1
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[], $5::smallint[]) AS x (child, place, parent, rule, decided)

-- name: decide parents
UPDATE nexjob.parents p SET decided = x.decided = 1
FROM unnest($1::uuid[], $2::bigint[], $3::smallint[]) AS x (child, place, decided)
WHERE p.child = x.child AND p.place = x.place

-- name: drop attempts
DELETE FROM nexjob.attempts WHERE job = ANY ($1::uuid[])

-- name: drop parents
DELETE FROM nexjob.parents WHERE child = ANY ($1::uuid[])

-- name: drop jobs
DELETE FROM nexjob.jobs WHERE id = ANY ($1::uuid[])

-- Keys.

-- part: key
k.key, k.job, coalesce(k.kind, j.kind), coalesce(k.fingerprint, j.fingerprint),
  coalesce(k.operation, j.operation, k.job), k.ended, k.until, k.cleared

-- part: of its job
LEFT JOIN nexjob.jobs j ON k.ended IS NULL AND j.id = k.job

-- name: lock keys
-- By an upsert, in one order: a key that has no row gets one without a job, for an UPDATE
-- would miss a row that is deleted and made anew while it waits.
INSERT INTO nexjob.keys AS k (key) SELECT x.key FROM unnest($1::bytea[]) AS x (key) ORDER BY x.key
ON CONFLICT (key) DO UPDATE SET job = k.job WHERE false

-- name: keys
-- In an older snapshot a row that was removed since stands beside the one made anew: the
-- newest comes last.
SELECT {key} FROM nexjob.keys k {of its job} WHERE k.key = ANY ($1::bytea[]) ORDER BY age(k.xmin) DESC

-- name: keys over
SELECT k.key FROM nexjob.keys k WHERE k.until <= $1::bigint ORDER BY k.until, k.key LIMIT $2::bigint

-- name: put keys
-- Rows that are locked, which are there.
UPDATE nexjob.keys k SET job = x.job, kind = x.kind, fingerprint = x.fingerprint, operation = x.operation,
  ended = x.ended, until = x.until, cleared = x.cleared = 1
FROM unnest($1::bytea[], $2::uuid[], $3::text[], $4::bytea[], $5::uuid[], $6::smallint[], $7::bigint[], $8::smallint[])
  AS x (key, job, kind, fingerprint, operation, ended, until, cleared)
WHERE k.key = x.key

-- name: leave keys
-- Jobs that their keys do not name any more.
UPDATE nexjob.jobs SET past = true WHERE id = ANY ($1::uuid[]) AND past IS NOT TRUE

-- name: drop keys
DELETE FROM nexjob.keys WHERE key = ANY ($1::bytea[])

-- name: drop vacant keys
DELETE FROM nexjob.keys WHERE key = ANY ($1::bytea[]) AND job IS NULL

-- Receipts.

-- part: receipt
r.operation, r.sort, r.name, r.item, r.turn, r.fingerprint, r.state, r.job, r.fence, r.value,
  r.error, r.verdict_by, r.at, r.outside_key, r.send_before, r.first_sent, r.repeatable_for_ns,
  r.lookup_after_ns, r.lookup, r.at_most_once

-- name: receipts
SELECT {receipt} FROM nexjob.receipts r WHERE r.operation = ANY ($1::uuid[]) ORDER BY r.operation, r.slot

-- name: put receipts
INSERT INTO nexjob.receipts (operation, slot, sort, name, item, turn, fingerprint, state, job, fence,
  value, error, verdict_by, at, outside_key, send_before, first_sent, repeatable_for_ns,
  lookup_after_ns, lookup, at_most_once)
SELECT x.operation, decode(x.slot, 'hex'), x.sort, x.name, x.item, x.turn, decode(x.fingerprint, 'hex'), x.state, x.job,
  x.fence, decode(x.value, 'hex'), x.error, x.verdict_by, x.at, x.outside_key, x.send_before, x.first_sent,
  x.repeatable_for_ns, x.lookup_after_ns, x.lookup, x.at_most_once
FROM json_to_recordset($1::text::json) AS x (operation uuid, slot text, sort smallint, name text, item text, turn bigint,
  fingerprint text, state smallint, job uuid, fence bigint, value text, error text, verdict_by text, at bigint,
  outside_key text, send_before bigint, first_sent bigint, repeatable_for_ns bigint, lookup_after_ns bigint,
  lookup boolean, at_most_once boolean)
ON CONFLICT (operation, slot) DO UPDATE SET fingerprint = excluded.fingerprint, state = excluded.state,
  job = excluded.job, fence = excluded.fence, value = excluded.value, error = excluded.error,
  verdict_by = excluded.verdict_by, at = excluded.at, outside_key = excluded.outside_key,
  send_before = excluded.send_before, first_sent = excluded.first_sent,
  repeatable_for_ns = excluded.repeatable_for_ns, lookup_after_ns = excluded.lookup_after_ns,
  lookup = excluded.lookup, at_most_once = excluded.at_most_once

-- name: drop receipts
-- Of operations that no job and no key holds.
DELETE FROM nexjob.receipts r WHERE r.operation = ANY ($1::uuid[])
  AND NOT EXISTS (SELECT 1 FROM nexjob.jobs j WHERE j.id = r.operation AND j.operation IS NULL)
  AND NOT EXISTS (SELECT 1 FROM nexjob.jobs j WHERE j.operation = r.operation)
  AND NOT EXISTS (SELECT 1 FROM nexjob.keys k WHERE k.operation = r.operation AND k.ended IS NOT NULL)

-- Entries.

-- part: entry
kind, name, version, value, expires_at, updated_at

-- name: lock entry
INSERT INTO nexjob.entries AS e (kind, name, version) VALUES ($1::text, $2::text, 0)
ON CONFLICT (kind, name) DO UPDATE SET version = e.version WHERE false

-- name: entry
SELECT {entry} FROM nexjob.entries WHERE kind = $1::text AND name = $2::text

-- name: entries
SELECT {entry} FROM nexjob.entries WHERE kind = $1::text AND version > 0 AND (expires_at IS NULL OR expires_at > $2::bigint)
ORDER BY name

-- name: put entry
UPDATE nexjob.entries SET version = $3::bigint, value = $4::bytea, expires_at = $5::bigint, updated_at = $6::bigint
WHERE kind = $1::text AND name = $2::text

-- name: drop entry
DELETE FROM nexjob.entries WHERE kind = $1::text AND name = $2::text

-- name: drop vacant entry
DELETE FROM nexjob.entries WHERE kind = $1::text AND name = $2::text AND version = 0

-- name: drop expired entries
DELETE FROM nexjob.entries WHERE (kind, name) IN (
  SELECT kind, name FROM nexjob.entries WHERE expires_at <= $1::bigint LIMIT $2::bigint FOR UPDATE SKIP LOCKED)
RETURNING name

-- What is remembered of the tables themselves.

-- name: meta
SELECT number, text FROM nexjob.meta WHERE name = $1::text

-- name: lock pulse
SELECT number, text FROM nexjob.meta WHERE name = 'pulse' FOR UPDATE

-- name: lock free pulse
SELECT number, text FROM nexjob.meta WHERE name = 'pulse' FOR UPDATE SKIP LOCKED

-- name: put pulse
UPDATE nexjob.meta SET number = $1::bigint, text = $2::text WHERE name = 'pulse'

-- name: raise fences
-- Never below a floor that grows with time, faster than fences do: where a fail-over has lost the newest writes,
-- numbers that were handed out are not handed out again. Under the pulse's lock.
SELECT setval('nexjob.fences', $1::bigint) FROM nexjob.fences WHERE last_value < $1::bigint

-- name: rewind leases
UPDATE nexjob.jobs SET lease_until = $1::bigint + lease_ns / 1000 WHERE id IN (
  SELECT id FROM nexjob.jobs WHERE state = 2 AND lease_until > $1::bigint + lease_ns / 1000
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)

-- name: rewind renewals
UPDATE nexjob.leases SET until = $1::bigint + lease_ns / 1000 WHERE until > $1::bigint + lease_ns / 1000

-- name: wake
-- A commit that notifies keeps all others of the kind waiting, so it does not wait for the
-- disk: a signal is not worth that.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text)
