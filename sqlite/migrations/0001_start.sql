-- min-code: 1
--
-- Times are microseconds since 1970 in UTC, durations nanoseconds; NULL is "none".
-- IDs are 16 bytes, keys are bytes and compared as bytes. States are numbered
-- 1 Enqueued 2 Processing 3 AwaitingContinuation 4 Uncertain 5 Succeeded 6 Failed
-- 7 Expired 8 Cancelled, as nexjob.State.

-- SQLite rewrites the whole row at each update, and each statement has its price. So
-- what every job has stands in its row, a small body with it; what few jobs have is
-- gathered in one column, and what may be large has tables of its own.
CREATE TABLE nexjob_jobs (
  seq            INTEGER PRIMARY KEY,
  id             BLOB    NOT NULL,
  state          INTEGER NOT NULL,
  kind           TEXT    NOT NULL,
  queue          TEXT    NOT NULL,
  priority       INTEGER NOT NULL,
  key            BLOB,
  operation      BLOB,              -- NULL: the job's own ID
  fingerprint    BLOB    NOT NULL,
  enqueued_at    INTEGER NOT NULL,
  due_at         INTEGER,
  deadline       INTEGER,
  timeout_ns     INTEGER NOT NULL DEFAULT 0,
  max_attempts   INTEGER NOT NULL,
  fence          INTEGER NOT NULL DEFAULT 0,
  worker         TEXT    NOT NULL DEFAULT '',
  started_at     INTEGER,
  ended_at       INTEGER,
  lease_until    INTEGER,
  lease_ns       INTEGER NOT NULL DEFAULT 0,
  -- 1 claimed since it was enqueued, 2 replaced, 4 asked to stop, 8 has a row in
  -- nexjob_results, 16 its body stands in nexjob_bodies, 32 its newest attempt succeeded
  -- and is told by fence, worker, started_at and ended_at of this row alone.
  flags          INTEGER NOT NULL DEFAULT 0,
  tries          INTEGER NOT NULL DEFAULT 0,
  crashes        INTEGER NOT NULL DEFAULT 0,
  attempts       INTEGER NOT NULL DEFAULT 0,  -- rows in nexjob_attempts
  settled_fence  INTEGER NOT NULL DEFAULT 0,
  settled_as     INTEGER NOT NULL DEFAULT 0,
  open_effects   INTEGER NOT NULL DEFAULT 0,
  receipts       INTEGER NOT NULL DEFAULT 0,
  receipt_bytes  INTEGER NOT NULL DEFAULT 0,
  reason         TEXT    NOT NULL DEFAULT '',
  more           TEXT    NOT NULL DEFAULT '',  -- JSON of what few jobs have, or ''
  past           INTEGER NOT NULL DEFAULT 0,  -- 1: its key went on to another job, or was freed
  args           BLOB,
  tags           TEXT,              -- JSON array
  meta           TEXT               -- JSON object
) STRICT;

CREATE UNIQUE INDEX nexjob_jobs_id ON nexjob_jobs (id);

-- What a claim reads. The kind comes before the time, so that jobs of kinds which
-- nobody serves are never walked over.
CREATE INDEX nexjob_jobs_due ON nexjob_jobs (queue, priority, kind, due_at, id)
  WHERE due_at IS NOT NULL AND state IN (1, 4);

CREATE INDEX nexjob_jobs_lease ON nexjob_jobs (lease_until, id) WHERE lease_until IS NOT NULL;

-- Deadlines of jobs that wait; retention; jobs that only others move on.
CREATE INDEX nexjob_jobs_deadline ON nexjob_jobs (deadline, id)
  WHERE deadline IS NOT NULL AND state IN (1, 3);
CREATE INDEX nexjob_jobs_ended ON nexjob_jobs (state, ended_at, id) WHERE ended_at IS NOT NULL;
CREATE INDEX nexjob_jobs_held ON nexjob_jobs (id) WHERE state IN (3, 4);

-- Former jobs of a key. Its last one is found through nexjob_keys, which spares the
-- usual enqueue a page.
CREATE INDEX nexjob_jobs_past ON nexjob_jobs (key, id) WHERE past = 1;
CREATE INDEX nexjob_jobs_operation ON nexjob_jobs (operation) WHERE operation IS NOT NULL;

-- What an enqueue chose, by the job's seq, where it is too large for the job's row.
CREATE TABLE nexjob_bodies (
  seq   INTEGER PRIMARY KEY,
  args  BLOB,
  tags  TEXT,   -- JSON array
  meta  TEXT    -- JSON object
) STRICT;

CREATE TABLE nexjob_results (
  job     BLOB PRIMARY KEY,
  result  BLOB NOT NULL
) STRICT;

-- The ended runs of a job, the newest fifty, but for one that flag 32 tells of.
CREATE TABLE nexjob_attempts (
  job      BLOB    NOT NULL,
  fence    INTEGER NOT NULL,
  worker   TEXT    NOT NULL,
  started  INTEGER,
  ended    INTEGER,
  ending   INTEGER NOT NULL,
  error    TEXT    NOT NULL,
  PRIMARY KEY (job, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE nexjob_parents (
  child    BLOB    NOT NULL,
  place    INTEGER NOT NULL,
  parent   BLOB    NOT NULL,
  rule     INTEGER NOT NULL,
  decided  INTEGER NOT NULL,
  PRIMARY KEY (child, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX nexjob_parents_parent ON nexjob_parents (parent, child);

-- One row per idempotency key: its last job. While that job is stored, the key's kind,
-- fingerprint and operation are the job's, and are not written twice.
CREATE TABLE nexjob_keys (
  key          BLOB    PRIMARY KEY,
  job          BLOB    NOT NULL,
  kind         TEXT,
  fingerprint  BLOB,
  operation    BLOB,
  ended        INTEGER,             -- the state it ended in, once its record is gone
  until        INTEGER,
  cleared      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX nexjob_keys_until ON nexjob_keys (until) WHERE until IS NOT NULL;
-- While a key's job is stored, the job holds the operation; afterwards the key does.
CREATE INDEX nexjob_keys_operation ON nexjob_keys (operation) WHERE ended IS NOT NULL;

-- Steps and effects. The slot tells the facts of one operation apart and gives
-- their order.
CREATE TABLE nexjob_receipts (
  operation          BLOB    NOT NULL,
  slot               BLOB    NOT NULL,
  sort               INTEGER NOT NULL,  -- 1 step, 2 effect
  name               TEXT    NOT NULL,
  item               TEXT    NOT NULL,
  turn               INTEGER NOT NULL,
  fingerprint        BLOB    NOT NULL,
  state              INTEGER NOT NULL,  -- 1 intended 2 confirmed 3 refused 4 disproved 5 compensated
  job                BLOB    NOT NULL,
  fence              INTEGER NOT NULL,
  value              BLOB,
  error              TEXT    NOT NULL,
  verdict_by         TEXT    NOT NULL,
  at                 INTEGER,
  outside_key        TEXT    NOT NULL,
  send_before        INTEGER,
  first_sent         INTEGER,
  repeatable_for_ns  INTEGER NOT NULL,
  lookup_after_ns    INTEGER NOT NULL,
  lookup             INTEGER NOT NULL,
  at_most_once       INTEGER NOT NULL,
  PRIMARY KEY (operation, slot)
) STRICT;

CREATE INDEX nexjob_receipts_open ON nexjob_receipts (operation, slot) WHERE state = 1;

-- The ledger of effects as people read it.
CREATE VIEW nexjob_effects AS
  SELECT lower(hex(operation)) AS operation, name, item, turn AS refusals,
    CASE state WHEN 1 THEN 'intended' WHEN 2 THEN 'confirmed' WHEN 3 THEN 'refused'
      WHEN 4 THEN 'disproved' ELSE 'compensated' END AS state,
    outside_key, value, error, verdict_by, lower(hex(job)) AS job, fence,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS at,
    strftime('%Y-%m-%dT%H:%M:%fZ', first_sent / 1e6, 'unixepoch') AS first_sent,
    strftime('%Y-%m-%dT%H:%M:%fZ', send_before / 1e6, 'unixepoch') AS send_before
  FROM nexjob_receipts WHERE sort = 2;

CREATE TABLE nexjob_entries (
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  value       BLOB,
  expires_at  INTEGER,
  updated_at  INTEGER,
  PRIMARY KEY (kind, name)
) STRICT;

CREATE INDEX nexjob_entries_expiry ON nexjob_entries (expires_at) WHERE expires_at IS NOT NULL;

-- store: the identity of this file, in text. fence: the newest drawn. pulse: the
-- last write in number, the gaps without one in text (JSON).
CREATE TABLE nexjob_meta (
  name    TEXT    PRIMARY KEY,
  number  INTEGER NOT NULL DEFAULT 0,
  text    TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

INSERT INTO nexjob_meta (name) VALUES ('fence'), ('pulse');
