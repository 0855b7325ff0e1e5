package storagetest

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/nexjob/nexjob"
)

// byteChecks are about bytes that storages like to change: everything comes back
// as it went in, and what is too large is refused before anything is written.
func byteChecks() []check {
	return []check{
		{"args come back byte for byte", argsComeBack},
		{"args of the largest size", func(b *bench) {
			n := newJob("")
			n.Args = bytes.Repeat([]byte{0, 0xff, '\'', '"'}, nexjob.MaxArgs/4)
			b.add(n)
			b.check(bytes.Equal(n.Args, b.claimOnly(n.ID).Job.Args), "args of MaxArgs come back changed")
		}},
		{"keys are compared bytewise", keysBytewise},
		{"keys of the largest size", keysLargest},
		{"names, tags and metadata", namesComeBack},
		{"metadata of the largest size", func(b *bench) {
			n := newJob("")
			n.Meta = map[string]string{"m": strings.Repeat("é", (nexjob.MaxMeta-1)/2)}
			b.add(n)
			b.equal("metadata", n.Meta, b.job(n.ID).Meta)
		}},
		{"error texts with odd bytes are stored", errorTexts},
		{"results come back byte for byte", func(b *bench) {
			c := b.run(newJob(""))
			b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: everyByte()})
			b.check(bytes.Equal(everyByte(), b.job(c.Job.ID).Result), "a result comes back changed")
		}},
		{"receipts come back byte for byte", func(b *bench) {
			c := b.run(newJob(""))
			r := step(c, "render", string(everyByte()))
			r.Item = "item/ü \U0001F600 ' \" \\ %_"
			r.Error = "note"
			got := b.write(r)
			r.At = got.At
			b.equal("standing receipt", r, got)
			b.equal("stored receipt", []nexjob.Receipt{r}, b.receipts(c.Job.Operation))
		}},
		{"reasons and workers", func(b *bench) {
			n := newJob("")
			b.add(n)
			ask := claimAsk(1)
			ask.Worker = "host ü'\"\\ \U0001F600"
			claimed := b.ask(ask)
			b.need(len(claimed) == 1, "Claim gives %d jobs", len(claimed))
			b.equal("worker", ask.Worker, claimed[0].Job.Worker)
			b.actWith(n.ID, nexjob.Action{Act: nexjob.ActCancel, By: "o'brien \"x\"", Reason: "it's \"wrong\" \x00 \xff " + strings.Repeat("y", 100)})
			b.check(strings.Contains(b.job(n.ID).StopReason, "it's \"wrong\""), "reason kept: %q", b.job(n.ID).StopReason)
		}},
	}
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func argsComeBack(b *bench) {
	for name, args := range map[string][]byte{
		"none":                nil,
		"every byte":          everyByte(),
		"NUL":                 {0},
		"not UTF-8":           []byte("{\"a\":\"\xff\xfe\"}"),
		"escaped NUL":         []byte(`{"a\u0000b":"\u0000"}`),
		"numbers above 2^53":  []byte(`{"a":9007199254740993,"b":18446744073709551615,"c":1e400,"d":1.0,"e":0.1000}`),
		"spaces and order":    []byte("{ \"b\" : 1 ,\n\t\"a\" : [ ] }\r\n"),
		"a name twice":        []byte(`{"a":1,"a":2}`),
		"quotes":              []byte(`'"; DROP TABLE jobs; --`),
		"looks like a number": []byte("007"),
		"looks like null":     []byte("null"),
	} {
		n := newJob("")
		n.Args, n.Fingerprint = args, nexjob.FingerprintOf(args)
		b.add(n)
		stored := b.job(n.ID)
		b.check(bytes.Equal(args, stored.Args), "args %s: stored %q, want %q", name, stored.Args, args)
		b.equal("fingerprint of args "+name, n.Fingerprint, stored.Fingerprint)
		b.check(bytes.Equal(args, b.claimOnly(n.ID).Job.Args), "args %s: claimed changed", name)
	}
}

// keysBytewise: no collation, no trimming, no case, no normalisation.
func keysBytewise(b *bench) {
	keys := []string{
		"Order-A", "order-a", "ORDER-A", "order-a ", " order-a", "order-a\t", "order-a\n",
		"caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse", "STRASSE", "\u0130", "i", "I", "\u0131",
		"1", "01", "1.0", "1e0", "%", "_", "*", "'", "''", "\"", "\\", "\\\\", "a/b", "a%2Fb", "a+b", "a#b",
		"\x00derived", "derived", "\u200b", "\ufeff", "x\u200b", "x", "null", "NULL", "\U0001F600", "\U0001F601",
	}
	for _, key := range keys {
		got := b.enqueue(under(nexjob.RejectAlways, newJob(key)))[0]
		b.check(got.Err == nil && got.Outcome == nexjob.Created, "key %q meets another key: %+v", key, got)
	}
	for _, key := range keys {
		page := b.find(nexjob.Query{Key: key})
		b.need(len(page.Jobs) == 1 && page.Jobs[0].Key == key, "Find by key %q gives %d jobs", key, len(page.Jobs))
		row, held := b.key(key)
		b.check(held && row.Key == key && row.Job == page.Jobs[0].ID, "standing of key %q: %+v", key, row)
	}
}

func keysLargest(b *bench) {
	ascii := strings.Repeat("k", nexjob.MaxKey-1)
	wide := strings.Repeat("\U0001F600", nexjob.MaxKey/4-1)
	for _, key := range []string{ascii, ascii + "a", ascii + "b", wide + "\U0001F601", wide + "\U0001F602", wide} {
		got := b.add(newJob(key))
		again := b.enqueue(newJob(key))[0]
		b.check(again.Outcome == nexjob.Existing && again.ID == got.ID, "key of %d bytes: %+v", len(key), again)
	}
	for _, key := range []string{ascii + "ab", wide + "\U0001F601a", strings.Repeat("k", 100_000), "a\x00", "\x00\x00", "\xff", "a\xc3", "\xed\xa0\x80"} {
		got := b.enqueue(newJob(key))[0]
		b.is(got.Err, nexjob.ErrInvalid, "a key that is too long or not UTF-8 without NUL")
	}
	b.equal("keys stored", 6, len(b.dump().Keys))
}

func namesComeBack(b *bench) {
	n := newJob("")
	n.Kind, n.Queue = "kind/ü'\"\\ %_ \U0001F600", "queue a:b#c+d%2F"
	n.Tags = []string{"Tag", "tag", "tag:ü", "a b", "'", "\U0001F600", strings.Repeat("t", nexjob.MaxName)}
	n.Meta = map[string]string{"Ü": "", "ü": "line\nline\t", "quote'": "\"\\"}
	b.add(n)
	ask := claimAsk(1)
	ask.Queues, ask.Kinds = []string{n.Queue}, []string{n.Kind}
	claimed := b.ask(ask)
	b.need(len(claimed) == 1, "a job with odd names is not claimed")
	for where, j := range map[string]nexjob.Job{"claimed": claimed[0].Job, "stored": b.job(n.ID)} {
		b.equal("kind "+where, n.Kind, j.Kind)
		b.equal("queue "+where, n.Queue, j.Queue)
		b.equal("tags "+where, n.Tags, j.Tags)
		b.equal("metadata "+where, n.Meta, j.Meta)
	}
	for _, tag := range n.Tags {
		b.equal("jobs with tag "+tag, 1, len(b.find(nexjob.Query{Tags: []string{tag}}).Jobs))
	}
}

// errorTexts: a text that a storage cannot hold is made visible, and the settlement
// never fails because of it.
func errorTexts(b *bench) {
	for _, text := range []string{"plain", "", "NUL \x00 inside", "not \xff\xfe UTF-8", "half \xed\xa0\x80 pair", string(everyByte())} {
		c := b.run(newJob(""))
		got := b.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndFailed, Error: text})[0]
		b.must(got.Err, "Settle with an odd error text")
		j := b.state(c.Job.ID, nexjob.Failed, "the settlement stands")
		kept := j.Attempts[0].Error
		b.check(utf8.ValidString(kept) && !strings.Contains(kept, "\x00"), "error text kept: %q", kept)
		b.equal("error text", nexjob.CutText(text, nexjob.MaxError), kept)
	}
}
