CREATE INDEX nexjob_entries_expiry ON nexjob_entries (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX nexjob_jobs_deadline ON nexjob_jobs (deadline, id)
  WHERE deadline IS NOT NULL AND state IN (1, 3);

CREATE INDEX nexjob_jobs_due ON nexjob_jobs (queue, priority, kind, due_at, id)
  WHERE due_at IS NOT NULL AND state IN (1, 4);

CREATE INDEX nexjob_jobs_ended ON nexjob_jobs (state, ended_at, id) WHERE ended_at IS NOT NULL;

CREATE INDEX nexjob_jobs_held ON nexjob_jobs (id) WHERE state IN (3, 4);

CREATE UNIQUE INDEX nexjob_jobs_id ON nexjob_jobs (id);

CREATE INDEX nexjob_jobs_lease ON nexjob_jobs (lease_until, id) WHERE lease_until IS NOT NULL;

CREATE INDEX nexjob_jobs_operation ON nexjob_jobs (operation) WHERE operation IS NOT NULL;

CREATE INDEX nexjob_jobs_past ON nexjob_jobs (key, id) WHERE past = 1;

CREATE INDEX nexjob_keys_operation ON nexjob_keys (operation) WHERE ended IS NOT NULL;

CREATE INDEX nexjob_keys_until ON nexjob_keys (until) WHERE until IS NOT NULL;

CREATE INDEX nexjob_parents_parent ON nexjob_parents (parent, child);

CREATE INDEX nexjob_receipts_open ON nexjob_receipts (operation, slot) WHERE state = 1;

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

CREATE TABLE nexjob_bodies (
  seq   INTEGER PRIMARY KEY,
  args  BLOB,
  tags  TEXT,   -- JSON array
  meta  TEXT    -- JSON object
) STRICT;

CREATE TABLE nexjob_entries (
  kind        TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  version     INTEGER NOT NULL,
  value       BLOB,
  expires_at  INTEGER,
  updated_at  INTEGER,
  PRIMARY KEY (kind, name)
) STRICT;

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

CREATE TABLE nexjob_meta (
  name    TEXT    PRIMARY KEY,
  number  INTEGER NOT NULL DEFAULT 0,
  text    TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

CREATE TABLE nexjob_migrations (
  version     INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL,
  checksum    TEXT    NOT NULL,
  min_code    INTEGER NOT NULL,
  applied_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE nexjob_parents (
  child    BLOB    NOT NULL,
  place    INTEGER NOT NULL,
  parent   BLOB    NOT NULL,
  rule     INTEGER NOT NULL,
  decided  INTEGER NOT NULL,
  PRIMARY KEY (child, place)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE nexjob_results (
  job     BLOB PRIMARY KEY,
  result  BLOB NOT NULL
) STRICT;

CREATE VIEW nexjob_effects AS
  SELECT lower(hex(operation)) AS operation, name, item, turn AS refusals,
    CASE state WHEN 1 THEN 'intended' WHEN 2 THEN 'confirmed' WHEN 3 THEN 'refused'
      WHEN 4 THEN 'disproved' ELSE 'compensated' END AS state,
    outside_key, value, error, verdict_by, lower(hex(job)) AS job, fence,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS at,
    strftime('%Y-%m-%dT%H:%M:%fZ', first_sent / 1e6, 'unixepoch') AS first_sent,
    strftime('%Y-%m-%dT%H:%M:%fZ', send_before / 1e6, 'unixepoch') AS send_before
  FROM nexjob_receipts WHERE sort = 2;

