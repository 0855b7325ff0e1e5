-- min-code: 1
--
-- Times are microseconds since 1970 in UTC, durations nanoseconds; NULL is "none", and in
-- numbers zero. Keys are bytes and names are compared as bytes, whatever the database's
-- collation. States are numbered 1 Enqueued 2 Processing 3 AwaitingContinuation
-- 4 Uncertain 5 Succeeded 6 Failed 7 Expired 8 Cancelled, as nexjob.State.
--
-- "nexjob." stands for the chosen schema and prefix of a name, "nexjob_" for the prefix.

CREATE TABLE nexjob.jobs (
  id             uuid     PRIMARY KEY WITH (deduplicate_items = off),
  fence          bigint,
  enqueued_at    bigint   NOT NULL,
  due_at         bigint,
  deadline       bigint,
  started_at     bigint,
  ended_at       bigint,
  lease_until    bigint,            -- as the claim granted it; nexjob.leases has renewals
  lease_ns       bigint,
  settled_fence  bigint,
  timeout_ns     bigint,
  keep_key_ns    bigint,
  operation      uuid,              -- NULL: the job's own ID
  max_attempts   integer  NOT NULL,
  -- 1 claimed since it was enqueued, 2 replaced, 4 asked to stop, 8 jobs wait for it or
  -- did, 16 its newest attempt succeeded and is told by fence, worker, started_at and
  -- ended_at of this row alone, 32 it was Uncertain when it was claimed.
  flags          integer  NOT NULL DEFAULT 0,
  tries          integer,
  crashes        integer,
  attempts       integer,           -- rows in nexjob.attempts
  open_effects   integer,
  receipts       integer,
  receipt_bytes  integer,
  state          smallint NOT NULL,
  priority       smallint NOT NULL,
  settled_as     smallint,
  wished         smallint,
  past           boolean,           -- its key went on to another job, or was freed
  kind           text     COLLATE "C" NOT NULL,
  queue          text     COLLATE "C" NOT NULL,
  worker         text     COLLATE "C",
  key            bytea,
  fingerprint    bytea    NOT NULL,
  reason         text     COLLATE "C",
  more           text     COLLATE "C",  -- JSON of what few jobs have
  args           bytea,
  result         bytea,
  tags           text[]   COLLATE "C",
  meta           text     COLLATE "C"   -- JSON object
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 1000
);

-- Entries of these indexes differ, by the ID at least. Those that each job passes through
-- do not look for duplicates, whose room they might share.

-- What a claim reads. The kind comes before the time, so that jobs of kinds which
-- nobody serves are never walked over.
CREATE INDEX nexjob_jobs_due ON nexjob.jobs (queue, priority, kind, due_at, id) WITH (deduplicate_items = off)
  WHERE due_at IS NOT NULL AND state IN (1, 4);

CREATE INDEX nexjob_jobs_lease ON nexjob.jobs (lease_until, id) WITH (deduplicate_items = off) WHERE state = 2;

-- Deadlines of jobs that wait; retention; jobs that only others move on.
CREATE INDEX nexjob_jobs_deadline ON nexjob.jobs (deadline, id)
  WHERE deadline IS NOT NULL AND state IN (1, 3);
CREATE INDEX nexjob_jobs_ended ON nexjob.jobs (state, ended_at, id) WITH (deduplicate_items = off) WHERE ended_at IS NOT NULL;
CREATE INDEX nexjob_jobs_held ON nexjob.jobs (id) WHERE state IN (3, 4);

-- Former jobs of a key. Its last one is found through nexjob.keys, which spares the
-- usual enqueue a page.
CREATE INDEX nexjob_jobs_past ON nexjob.jobs (key, id) WHERE past;
CREATE INDEX nexjob_jobs_operation ON nexjob.jobs (operation) WHERE operation IS NOT NULL;

-- Renewed leases: the newest end of a lease that outlived what its claim granted. A row
-- of a fence that is not the job's means nothing and is swept. Renewals stand apart so
-- that they do not write what a settlement in somebody's snapshot compares.
CREATE TABLE nexjob.leases (
  job       uuid   PRIMARY KEY,
  fence     bigint NOT NULL,
  until     bigint NOT NULL,
  lease_ns  bigint NOT NULL
) WITH (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);

-- The ended runs of a job, the newest fifty, but for one that flag 16 tells of.
CREATE TABLE nexjob.attempts (
  job      uuid     NOT NULL,
  fence    bigint   NOT NULL,
  worker   text     COLLATE "C",
  started  bigint,
  ended    bigint,
  ending   smallint NOT NULL,
  error    text     COLLATE "C",
  PRIMARY KEY (job, fence)
);

CREATE TABLE nexjob.parents (
  child    uuid     NOT NULL,
  place    integer  NOT NULL,
  parent   uuid     NOT NULL,
  rule     smallint NOT NULL,
  decided  boolean  NOT NULL,
  PRIMARY KEY (child, place)
);

CREATE INDEX nexjob_parents_parent ON nexjob.parents (parent, child);

-- One row per idempotency key: its last job. While that job is stored, the key's kind,
-- fingerprint and operation are the job's, and are not written twice. A row without a
-- job is only ever seen by the transaction that locks the key with it.
CREATE TABLE nexjob.keys (
  key          bytea    PRIMARY KEY,
  job          uuid,
  until        bigint,
  operation    uuid,
  ended        smallint,            -- the state it ended in, once its record is gone
  cleared      boolean,
  kind         text     COLLATE "C",
  fingerprint  bytea
) WITH (
  fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000
);

CREATE INDEX nexjob_keys_until ON nexjob.keys (until) WHERE until IS NOT NULL;
-- While a key's job is stored, the job holds the operation; afterwards the key does.
CREATE INDEX nexjob_keys_operation ON nexjob.keys (operation) WHERE ended IS NOT NULL;

-- Steps and effects. The slot tells the facts of one operation apart and gives
-- their order.
CREATE TABLE nexjob.receipts (
  operation          uuid     NOT NULL,
  slot               bytea    NOT NULL,
  sort               smallint NOT NULL,  -- 1 step, 2 effect
  name               text     COLLATE "C" NOT NULL,
  item               text     COLLATE "C" NOT NULL,
  turn               bigint   NOT NULL,
  fingerprint        bytea    NOT NULL,
  state              smallint NOT NULL,  -- 1 intended 2 confirmed 3 refused 4 disproved 5 compensated
  job                uuid     NOT NULL,
  fence              bigint   NOT NULL,
  value              bytea,
  error              text     COLLATE "C" NOT NULL,
  verdict_by         text     COLLATE "C" NOT NULL,
  at                 bigint,
  outside_key        text     COLLATE "C" NOT NULL,
  send_before        bigint,
  first_sent         bigint,
  repeatable_for_ns  bigint   NOT NULL,
  lookup_after_ns    bigint   NOT NULL,
  lookup             boolean  NOT NULL,
  at_most_once       boolean  NOT NULL,
  PRIMARY KEY (operation, slot)
);

CREATE INDEX nexjob_receipts_open ON nexjob.receipts (operation, slot) WHERE state = 1;

-- The ledger of effects as people read it.
CREATE VIEW nexjob.effects AS
  SELECT operation, name, item, turn AS refusals,
    CASE state WHEN 1 THEN 'intended' WHEN 2 THEN 'confirmed' WHEN 3 THEN 'refused'
      WHEN 4 THEN 'disproved' ELSE 'compensated' END AS state,
    outside_key, value, error, verdict_by, job, fence,
    to_timestamp(at / 1e6) AS at, to_timestamp(first_sent / 1e6) AS first_sent,
    to_timestamp(send_before / 1e6) AS send_before
  FROM nexjob.receipts WHERE sort = 2;

-- A row of version 0 is only ever seen by the transaction that locks the entry with it.
CREATE TABLE nexjob.entries (
  kind        text   COLLATE "C" NOT NULL,
  name        text   COLLATE "C" NOT NULL,
  version     bigint NOT NULL,
  value       bytea,
  expires_at  bigint,
  updated_at  bigint,
  PRIMARY KEY (kind, name)
) WITH (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

CREATE INDEX nexjob_entries_expiry ON nexjob.entries (expires_at) WHERE expires_at IS NOT NULL;

-- store: the identity of these tables, in text. pulse: the last beat in number, the gaps
-- without one in text (JSON).
CREATE TABLE nexjob.meta (
  name    text   COLLATE "C" PRIMARY KEY,
  number  bigint NOT NULL DEFAULT 0,
  text    text   COLLATE "C" NOT NULL DEFAULT ''
) WITH (
  fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50
);

INSERT INTO nexjob.meta (name) VALUES ('pulse');
INSERT INTO nexjob.meta (name, text) VALUES ('store', gen_random_uuid()::text);

-- Fences. CACHE 1: numbers grow in the order in which rows are locked.
CREATE SEQUENCE nexjob.fences AS bigint CACHE 1;

-- The hot steps. They are functions so that each is one round trip on every driver and
-- through every pooler, and so that their plans stay on the indexes also while the tables
-- are new and PostgreSQL has no statistics. Their names end in a version: code that is one
-- migration behind goes on calling the one it knows. "state + 0" in them keeps what names
-- jobs away from the index of leased ones: statistics of a moment at which nothing was
-- leased make it look empty, and each job would walk it.

-- clock_1 refuses a caller whose now is off the server's clock by more than a second.
CREATE FUNCTION nexjob.clock_1(now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  here bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  IF abs(here - now) > 1000000 THEN
    RAISE EXCEPTION 'the time is off the server''s clock by % ms', (now - here) / 1000
      USING ERRCODE = 'NJ001';
  END IF;
END $$;

-- look_1 reads, without a lock, what is stored about items: the job of the same ID, the
-- key's row, and the job that it names.
CREATE FUNCTION nexjob.look_1(ids uuid[], keys bytea[]) RETURNS TABLE (
  ord bigint,
  same uuid, same_kind text, same_key bytea, same_fingerprint bytea, same_operation uuid,
  same_state smallint, same_due bigint, same_flags integer,
  key_job uuid, key_kind text, key_fingerprint bytea, key_operation uuid,
  key_ended smallint, key_until bigint, key_cleared boolean,
  holder uuid, holder_state smallint, holder_due bigint, holder_flags integer
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  IF cardinality(ids) = 1 THEN -- the usual call of a caller who is alone: a smaller plan
    RETURN QUERY
    SELECT 1::bigint, s.id, s.kind, s.key, s.fingerprint, s.operation, s.state, s.due_at, s.flags,
      k.job, coalesce(k.kind, h.kind), coalesce(k.fingerprint, h.fingerprint),
      coalesce(k.operation, h.operation, k.job), k.ended, k.until, k.cleared,
      h.id, h.state, h.due_at, h.flags
    FROM (VALUES (1)) AS one
    LEFT JOIN nexjob.jobs s ON s.id = ids[1]
    LEFT JOIN nexjob.keys k ON k.key = keys[1] AND k.job IS NOT NULL
    LEFT JOIN nexjob.jobs h ON h.id = k.job AND h.key = k.key;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT i.ord, s.id, s.kind, s.key, s.fingerprint, s.operation, s.state, s.due_at, s.flags,
    k.job, coalesce(k.kind, h.kind), coalesce(k.fingerprint, h.fingerprint),
    coalesce(k.operation, h.operation, k.job), k.ended, k.until, k.cleared,
    h.id, h.state, h.due_at, h.flags
  FROM unnest(ids, keys) WITH ORDINALITY AS i (id, key, ord)
  LEFT JOIN LATERAL (SELECT * FROM nexjob.jobs j WHERE j.id = i.id LIMIT 1) s ON true
  LEFT JOIN LATERAL (SELECT * FROM nexjob.keys k WHERE k.key = i.key AND k.job IS NOT NULL LIMIT 1) k ON true
  LEFT JOIN LATERAL (SELECT * FROM nexjob.jobs j WHERE j.id = k.job AND j.key = k.key LIMIT 1) h ON true;
END $$;

-- add_1 adds an item if nobody has its key, and answers, as look_1 does, what is stored
-- otherwise. With patience, a key that somebody's open transaction holds is waited for no
-- longer than that.
CREATE FUNCTION nexjob.add_1(
  now bigint, guard boolean, id uuid, key bytea, fingerprint bytea, args bytea, due bigint,
  kind text, queue text, priority smallint, deadline bigint, timeout bigint, max_attempts bigint, keep bigint,
  tags text, meta text, more text, patience text
) RETURNS TABLE (
  ord bigint,
  same uuid, same_kind text, same_key bytea, same_fingerprint bytea, same_operation uuid,
  same_state smallint, same_due bigint, same_flags integer,
  key_job uuid, key_kind text, key_fingerprint bytea, key_operation uuid,
  key_ended smallint, key_until bigint, key_cleared boolean,
  holder uuid, holder_state smallint, holder_due bigint, holder_flags integer
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  IF guard THEN
    PERFORM nexjob.clock_1(now);
  END IF;
  IF patience IS NOT NULL THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
  IF nexjob_add_1.key IS NOT NULL THEN
    INSERT INTO nexjob.keys (key, job) VALUES (nexjob_add_1.key, nexjob_add_1.id) ON CONFLICT (key) DO NOTHING;
  END IF;
  IF nexjob_add_1.key IS NULL OR FOUND THEN
    INSERT INTO nexjob.jobs (id, state, enqueued_at, due_at, key, fingerprint, args, kind, queue, priority,
      deadline, timeout_ns, max_attempts, keep_key_ns, tags, meta, more)
    VALUES (nexjob_add_1.id, 1, nexjob_add_1.now, due, nexjob_add_1.key, nexjob_add_1.fingerprint, nexjob_add_1.args,
      nexjob_add_1.kind, nexjob_add_1.queue, nexjob_add_1.priority, nexjob_add_1.deadline, timeout,
      nexjob_add_1.max_attempts, keep,
      CASE WHEN nexjob_add_1.tags IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(nexjob_add_1.tags::json)) END,
      nexjob_add_1.meta, nexjob_add_1.more)
    ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;
    -- An ID that is stored already, under a key that was free and stays so.
    DELETE FROM nexjob.keys k WHERE k.key = nexjob_add_1.key;
  END IF;
  RETURN QUERY SELECT * FROM nexjob.look_1(ARRAY[nexjob_add_1.id], ARRAY[nexjob_add_1.key]);
END $$;

-- answered_1 refuses an item unless an active job holds its key.
CREATE FUNCTION nexjob.answered_1(same uuid, holder_state smallint, key_until bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF same IS NOT NULL OR holder_state IS NULL OR holder_state > 4 OR key_until IS NOT NULL THEN
    RAISE EXCEPTION 'an item is left' USING ERRCODE = 'NJ002';
  END IF;
  RETURN true;
END $$;

-- enqueue_1 adds the items whose keys nobody has, and answers, as look_1 does, what is
-- stored about the others. Keys of one call differ, and IDs do. Options that many items
-- share are listed once: shapes says which of them an item has. Two inserts that stop at
-- what is there cost a sixth less than two that would step over it. So where somebody adds
-- one of the keys or IDs at the same time, all is undone and add_1 does it item by item; and
-- so it does for a snapshot, which does not see what has become of a key since. All or
-- nothing: nothing is added if an item may want more than that its key's active job is the answer.
CREATE FUNCTION nexjob.enqueue_1(
  now bigint, guard boolean, ids uuid[], keys bytea[], fingerprints bytea[], args bytea[], dues bigint[],
  shapes smallint[], kinds text[], queues text[], priorities smallint[], deadlines bigint[],
  timeouts bigint[], max_attempts bigint[], keeps bigint[], tags text[], metas text[], mores text[],
  patience text, all_or_nothing boolean
) RETURNS TABLE (
  ord bigint,
  same uuid, same_kind text, same_key bytea, same_fingerprint bytea, same_operation uuid,
  same_state smallint, same_due bigint, same_flags integer,
  key_job uuid, key_kind text, key_fingerprint bytea, key_operation uuid,
  key_ended smallint, key_until bigint, key_cleared boolean,
  holder uuid, holder_state smallint, holder_due bigint, holder_flags integer
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  made uuid[];
BEGIN
  IF guard THEN
    PERFORM nexjob.clock_1(now);
  END IF;
  IF patience IS NOT NULL THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
  IF current_setting('transaction_isolation') = 'read committed' THEN
    BEGIN
      WITH i AS MATERIALIZED (
        SELECT * FROM unnest(ids, keys, fingerprints, args, dues, shapes) AS i (id, key, fingerprint, args, due, shape)
      ), k AS (
        INSERT INTO nexjob.keys (key, job) SELECT i.key, i.id FROM i
        WHERE i.key IS NOT NULL AND (SELECT true FROM nexjob.keys x WHERE x.key = i.key) IS NULL ORDER BY i.key
        RETURNING job
      ), j AS (
        INSERT INTO nexjob.jobs (id, state, enqueued_at, due_at, key, fingerprint, args, kind, queue, priority,
          deadline, timeout_ns, max_attempts, keep_key_ns, tags, meta, more)
        SELECT i.id, 1, now, i.due, i.key, i.fingerprint, i.args, kinds[i.shape], queues[i.shape], priorities[i.shape],
          deadlines[i.shape], timeouts[i.shape], max_attempts[i.shape], keeps[i.shape],
          CASE WHEN tags[i.shape] IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(tags[i.shape]::json)) END,
          metas[i.shape], mores[i.shape]
        FROM i WHERE i.key IS NULL OR i.id IN (SELECT k.job FROM k)
        RETURNING id
      ) SELECT array_agg(j.id) INTO made FROM j;
      IF coalesce(cardinality(made), 0) = cardinality(ids) THEN
        RETURN;
      END IF;
      RETURN QUERY SELECT l.* FROM (
          SELECT * FROM nexjob.look_1(ids, keys) l
          WHERE NOT EXISTS (SELECT 1 FROM unnest(made) AS m (id) WHERE m.id = ids[l.ord])
          OFFSET 0 -- or else PostgreSQL asks for those that were made too, before it leaves them out
        ) l WHERE NOT all_or_nothing OR nexjob.answered_1(l.same, l.holder_state, l.key_until);
      RETURN;
    EXCEPTION WHEN unique_violation THEN
      NULL; -- undone
    END;
  END IF;
  RETURN QUERY SELECT i.ord, a.same, a.same_kind, a.same_key, a.same_fingerprint, a.same_operation, a.same_state,
    a.same_due, a.same_flags, a.key_job, a.key_kind, a.key_fingerprint, a.key_operation, a.key_ended, a.key_until,
    a.key_cleared, a.holder, a.holder_state, a.holder_due, a.holder_flags
  FROM (
    SELECT * FROM unnest(ids, keys, fingerprints, args, dues, shapes) WITH ORDINALITY
      AS i (id, key, fingerprint, args, due, shape, ord) ORDER BY i.key
  ) i, LATERAL nexjob.add_1(now, false, i.id, i.key, i.fingerprint, i.args, i.due, kinds[i.shape], queues[i.shape],
    priorities[i.shape], deadlines[i.shape], timeouts[i.shape], max_attempts[i.shape], keeps[i.shape], tags[i.shape],
    metas[i.shape], mores[i.shape], patience) a
  WHERE NOT all_or_nothing OR nexjob.answered_1(a.same, a.holder_state, a.key_until);
END $$;

-- claim_1 leases at most n due jobs, queue by queue and priority by priority as they are
-- listed. bounds say, for each of these and each kind, before which time nothing is looked
-- for, so that what was claimed lately and is not vacuumed yet is not walked over. A job
-- past its deadline is named and left alone.
CREATE FUNCTION nexjob.claim_1(
  now bigint, guard boolean, queues text[], priorities smallint[], kinds text[], bounds bigint[],
  n bigint, until bigint, lease_ns bigint, worker text
) RETURNS TABLE (
  o_id uuid, o_late boolean, o_fence bigint, o_enqueued_at bigint, o_due_at bigint, o_deadline bigint,
  o_timeout_ns bigint, o_keep_key_ns bigint, o_operation uuid, o_settled_fence bigint, o_max_attempts integer,
  o_flags integer, o_tries integer, o_crashes integer, o_attempts integer, o_open_effects integer, o_receipts integer,
  o_receipt_bytes integer, o_priority smallint, o_settled_as smallint, o_wished smallint, o_kind text, o_queue text,
  o_key bytea, o_fingerprint bytea, o_reason text, o_more text, o_args bytea, o_result bytea, o_tags text, o_meta text
) LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  tids tid[];
  late uuid[];
BEGIN
  IF guard THEN
    PERFORM nexjob.clock_1(now);
  END IF;
  IF cardinality(kinds) = 1 THEN
    SELECT array_agg(d.tid) FILTER (WHERE d.late IS NOT TRUE), array_agg(d.id) FILTER (WHERE d.late) INTO tids, late
    FROM (
      SELECT l.tid, l.id, l.late
      FROM unnest(queues, priorities, bounds) AS g (queue, priority, bound),
      LATERAL (
        SELECT j.ctid AS tid, j.id, j.state <> 4 AND j.deadline <= now AS late
        FROM nexjob.jobs j
        WHERE j.queue = g.queue AND j.priority = g.priority AND j.kind = kinds[1]
          AND j.due_at IS NOT NULL AND j.state IN (1, 4) AND j.due_at <= now AND j.due_at >= g.bound
        ORDER BY j.due_at, j.id LIMIT n FOR NO KEY UPDATE SKIP LOCKED
      ) l LIMIT n
    ) d;
  ELSE
    -- Of several kinds, more are looked at than are locked: the first of all kinds count.
    SELECT array_agg(c.tid) FILTER (WHERE c.late IS NOT TRUE), array_agg(c.id) FILTER (WHERE c.late) INTO tids, late
    FROM (
      WITH d AS MATERIALIZED (
        SELECT g.place, x.due_at, x.id
        FROM unnest(queues, priorities) WITH ORDINALITY AS g (queue, priority, place),
        LATERAL (
          SELECT f.due_at, f.id FROM unnest(kinds) WITH ORDINALITY AS k (kind, nr),
          LATERAL (
            SELECT j.due_at, j.id FROM nexjob.jobs j
            WHERE j.queue = g.queue AND j.priority = g.priority AND j.kind = k.kind
              AND j.due_at IS NOT NULL AND j.state IN (1, 4) AND j.due_at <= now
              AND j.due_at >= bounds[(g.place - 1) * cardinality(kinds) + k.nr]
            ORDER BY j.due_at, j.id LIMIT 3 * n + 20
          ) f ORDER BY f.due_at, f.id LIMIT 3 * n + 20
        ) x LIMIT 3 * n + 20
      )
      SELECT j.ctid AS tid, j.id, j.state <> 4 AND j.deadline <= now AS late
      FROM d JOIN nexjob.jobs j ON j.id = d.id
      WHERE j.due_at <= now AND j.state + 0 IN (1, 4)
      ORDER BY d.place, d.due_at, d.id LIMIT n FOR NO KEY UPDATE OF j SKIP LOCKED
    ) c;
  END IF;
  -- The rows are locked, so they stay where they are.
  IF tids IS NOT NULL THEN
    RETURN QUERY
    UPDATE nexjob.jobs j SET state = 2, fence = nextval('nexjob.fences'), worker = nexjob_claim_1.worker,
      started_at = now, lease_until = until, lease_ns = nexjob_claim_1.lease_ns,
      flags = (j.flags | 1) & ~32 | CASE WHEN j.state = 4 THEN 32 ELSE 0 END
    WHERE j.ctid = ANY (tids)
    RETURNING j.id, false, j.fence, j.enqueued_at, j.due_at, j.deadline, j.timeout_ns, j.keep_key_ns, j.operation,
      j.settled_fence, j.max_attempts, j.flags, j.tries, j.crashes, j.attempts, j.open_effects, j.receipts,
      j.receipt_bytes, j.priority, j.settled_as, j.wished, j.kind, j.queue, j.key, j.fingerprint, j.reason, j.more,
      j.args, j.result, to_json(j.tags)::text, j.meta;
  END IF;
  IF late IS NOT NULL THEN
    RETURN QUERY
    SELECT l.id, true, NULL::bigint, 0::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::uuid,
      NULL::bigint, 0, 0, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::integer,
      0::smallint, NULL::smallint, NULL::smallint, '', '', NULL::bytea, NULL::bytea, NULL, NULL, NULL::bytea,
      NULL::bytea, NULL, NULL
    FROM unnest(late) AS l (id);
  END IF;
END $$;

-- settle_1 ends attempts that succeeded and from whose end nothing else follows, and names
-- those that it ended. A row is waited for as long as patience says: claims lock rows for
-- moments that they find leased, and passing those by would leave out one job in a hundred.
CREATE FUNCTION nexjob.settle_1(now bigint, guard boolean, ids uuid[], fences bigint[], results bytea[],
  patience text)
RETURNS TABLE (o_id uuid)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
  IF guard THEN
    PERFORM nexjob.clock_1(now);
  END IF;
  PERFORM set_config('lock_timeout', patience, true);
  -- The items come in order of their IDs, and so the rows are locked.
  RETURN QUERY
  UPDATE nexjob.jobs j SET state = 5, ended_at = now, due_at = NULL, lease_until = NULL, lease_ns = NULL,
    flags = j.flags & ~32 | 16, reason = NULL, result = i.result, settled_fence = j.fence, settled_as = 1
  FROM unnest(ids, fences, results) AS i (id, fence, result)
  WHERE j.id = i.id AND j.state + 0 = 2 AND j.fence = i.fence AND j.flags & 12 = 0 AND j.open_effects IS NULL
    AND j.wished IS NULL AND j.keep_key_ns IS NULL AND coalesce(j.attempts, 0) < 49
  RETURNING j.id;
END $$;

-- renew_1 extends leases to a time, if that is later than their end, and answers those
-- that are current and whose rows nobody holds.
CREATE FUNCTION nexjob.renew_1(now bigint, guard boolean, ids uuid[], fences bigint[], until bigint, lease_ns bigint)
RETURNS TABLE (o_id uuid, o_until bigint, o_flags integer, o_fence bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  IF guard THEN
    PERFORM nexjob.clock_1(now);
  END IF;
  RETURN QUERY
  WITH j AS MATERIALIZED (
    SELECT j.id, j.fence, j.lease_until, j.flags
    FROM unnest(ids, fences) AS i (id, fence) JOIN nexjob.jobs j ON j.id = i.id
    WHERE j.state + 0 = 2 AND j.fence = i.fence
    ORDER BY j.id FOR SHARE OF j SKIP LOCKED
  ), l AS (
    INSERT INTO nexjob.leases AS l (job, fence, until, lease_ns)
    SELECT j.id, j.fence, nexjob_renew_1.until, nexjob_renew_1.lease_ns FROM j WHERE j.lease_until < nexjob_renew_1.until ORDER BY j.id
    ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, until = excluded.until, lease_ns = excluded.lease_ns
      WHERE l.fence <> excluded.fence OR l.until < excluded.until
    RETURNING l.job
  )
  SELECT j.id, greatest(j.lease_until, (SELECT o.until FROM nexjob.leases o WHERE o.job = j.id AND o.fence = j.fence),
    CASE WHEN l.job IS NOT NULL THEN nexjob_renew_1.until END), j.flags, j.fence
  FROM j LEFT JOIN l ON l.job = j.id;
END $$;

-- next_due_1 is the earliest time after now at which a job falls due that a claim could
-- take; NULL: there is none.
CREATE FUNCTION nexjob.next_due_1(now bigint, queues text[], kinds text[]) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN (
    SELECT min(d.due_at)
    FROM unnest(queues) AS q (queue), unnest(ARRAY[1, 2, 3, 4]) AS p (priority), unnest(kinds) AS k (kind),
    LATERAL (
      SELECT j.due_at FROM nexjob.jobs j
      WHERE j.queue = q.queue AND j.priority = p.priority AND j.kind = k.kind
        AND j.due_at IS NOT NULL AND j.state IN (1, 4) AND j.due_at > now
      ORDER BY j.due_at, j.id LIMIT 1
    ) d);
END $$;
