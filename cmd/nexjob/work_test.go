package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/sqlite"
)

// work is the worker of the scripts, as in: work fail 'card declined'. It claims the
// next due job of kind charge-card and ends it in one way:
//
//	claim            it does not end: the lease runs for an hour
//	succeed, fail TEXT, retry TEXT
//	uncertain TEXT   an effect was sent a while ago and nobody answered
//	sending TEXT     the same, and the send may not have ended yet
//	confirm TEXT     the same effect was answered, and the job fails all the same
//	step TEXT        a step was recorded, and the job fails
//
// purge claims nothing and removes what has ended, as retention does. TEXT may hold
// Go's escapes.
func work(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: work HOW [TEXT]")
	}
	text := ""
	if len(args) > 1 {
		text = unquoted(ts, args[1])
	}
	ctx := context.Background()
	store, err := storeOf(ctx, ts)
	ts.Check(err)
	defer func() { ts.Check(store.Close()) }()
	if args[0] == "purge" {
		purged, err := store.Amend(ctx, time.Now(), nexjob.Query{EndedBefore: time.Now()},
			nexjob.Action{Act: nexjob.ActPurge}, 100)
		ts.Check(err)
		if purged.Done() == 0 {
			ts.Fatalf("nothing was purged")
		}
		return
	}
	claimed, err := store.Claim(ctx, time.Now(), nexjob.ClaimRequest{
		Worker: "till-1", N: 1, Lease: time.Hour, Queues: []string{nexjob.DefaultQueue}, Kinds: []string{"charge-card"},
	})
	ts.Check(err)
	if len(claimed) != 1 {
		ts.Fatalf("no job is due")
	}
	end := nexjob.Settlement{Lease: claimed[0].Job.Lease(), Error: text}
	job := &claimed[0].Job
	switch args[0] {
	case "claim":
		return
	case "succeed":
		end.As, end.Result = nexjob.EndSucceeded, []byte(`{"charge":"ch_17"}`)
	case "fail":
		end.As = nexjob.EndFailed
	case "retry":
		end.As, end.Delay = nexjob.EndRetry, time.Hour
	case "uncertain":
		receipt(ts, store, job, nexjob.Intended, time.Now().Add(-time.Minute))
		end.As = nexjob.EndUncertain
	case "sending":
		receipt(ts, store, job, nexjob.Intended, time.Now().Add(time.Hour))
		end.As = nexjob.EndUncertain
	case "confirm":
		receipt(ts, store, job, nexjob.Intended, time.Now())
		receipt(ts, store, job, nexjob.Confirmed, time.Now())
		end.As = nexjob.EndFailed
	case "step":
		writeReceipt(ts, store, nexjob.Receipt{
			Operation: job.Operation, Sort: nexjob.StepReceipt, Name: "render", State: nexjob.Confirmed,
			Fingerprint: job.Fingerprint, Writer: job.Lease(), Value: []byte(`{"pages":3}`),
		})
		end.As = nexjob.EndFailed
	default:
		ts.Fatalf("work %s is unknown", args[0])
	}
	settled, err := store.Settle(ctx, time.Now(), []nexjob.Settlement{end})
	ts.Check(err)
	ts.Check(settled[0].Err)
}

// storeOf opens what NEXJOB_STORE names, or else nexjob.db.
func storeOf(ctx context.Context, ts *testscript.TestScript) (nexjob.Storage, error) {
	text := ts.Getenv(storeEnv)
	if !strings.HasPrefix(text, "postgres") {
		return sqlite.Open(ctx, ts.MkAbs("nexjob.db"), sqlite.Options{})
	}
	at, err := parseStore(text)
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, at.url, at.options)
}

// receipt writes the state of an effect whose newest send ends before a time.
func receipt(
	ts *testscript.TestScript, store nexjob.Storage, job *nexjob.Job, state nexjob.EffectState, sendBefore time.Time,
) {
	writeReceipt(ts, store, nexjob.Receipt{
		Operation: job.Operation, Sort: nexjob.EffectReceipt, Name: "charge", State: state,
		Fingerprint: job.Fingerprint, Writer: job.Lease(),
		OutsideKey: nexjob.OutsideKey(job.Operation, "charge", "", 0),
		SendBefore: sendBefore, AtMostOnce: true,
	})
}

func writeReceipt(ts *testscript.TestScript, store nexjob.Storage, receipt nexjob.Receipt) {
	recorded, err := store.Record(context.Background(), time.Now(), []nexjob.Receipt{receipt})
	ts.Check(err)
	ts.Check(recorded[0].Err)
}

func unquoted(ts *testscript.TestScript, text string) string {
	plain, err := strconv.Unquote(`"` + text + `"`)
	ts.Check(err)
	return plain
}

// setText puts a text with Go's escapes into the environment, as in: text KEY 'a\x1b'.
func setText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: text NAME TEXT")
	}
	ts.Setenv(args[0], unquoted(ts, args[1]))
}

// setID puts the first job ID on standard output into the environment, as in: id FIRST.
func setID(ts *testscript.TestScript, neg bool, args []string) {
	id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(ts.ReadFile("stdout"))
	if neg || len(args) != 1 || id == "" {
		ts.Fatalf("usage: id NAME, after a command that prints a job's ID")
	}
	ts.Setenv(args[0], id)
}
