package storagetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// registryChecks are about entries: compare and swap by version, expiry.
func registryChecks() []check {
	return []check{
		{"written, swapped, deleted", entryLife},
		{"a wrong version is refused", entryConflicts},
		{"Always writes whatever stands", func(b *bench) {
			for i := range 3 {
				got := b.put(nexjob.Put{Entry: entry("a", fmt.Sprint(i)), Always: true})
				b.check(got.Done && got.Version == int64(i+1), "write %d: %+v", i, got)
			}
			got := b.put(nexjob.Put{Entry: entry("a", ""), Always: true, Delete: true})
			b.check(got.Done && got.Version == 0, "delete: %+v", got)
			b.equal("entries", 0, len(b.entries()))
		}},
		{"an expired entry does not exist", entryExpires},
		{"each has its own answer, in order", func(b *bench) {
			large := entry("large", "")
			large.Value = make([]byte, nexjob.MaxEntryValue+1)
			answers := b.puts(
				nexjob.Put{Entry: entry("a", "1")}, nexjob.Put{Entry: entry("b", "1"), If: 7}, nexjob.Put{Entry: large},
				nexjob.Put{Entry: entry("a", "2")}, nexjob.Put{Entry: entry("a", "3"), If: 1},
			)
			b.check(answers[0].Done && answers[0].Version == 1, "a new entry: %+v", answers[0])
			b.check(!answers[1].Done && answers[1].Version == 0 && answers[1].Err == nil, "a swap of nothing: %+v", answers[1])
			b.check(!answers[2].Done, "a value too large: %+v", answers[2])
			b.is(answers[2].Err, nexjob.ErrInvalid, "a value too large")
			b.check(!answers[3].Done && answers[3].Version == 1, "a second creation: %+v", answers[3])
			b.check(answers[4].Done && answers[4].Version == 2, "a swap of what the batch wrote: %+v", answers[4])
			b.equal("value", "3", string(b.entries()[0].Value))
		}},
		{"of one kind, by name, byte for byte", entriesByName},
		{"values of the largest size", func(b *bench) {
			e := entry("large", "")
			e.Value = bytes.Repeat([]byte{0, 0xff}, nexjob.MaxEntryValue/2)
			b.check(b.put(nexjob.Put{Entry: e}).Done, "a value of MaxEntryValue is refused")
			b.check(bytes.Equal(e.Value, b.entries()[0].Value), "a value of MaxEntryValue comes back changed")
		}},
		{"wrong names are refused", func(b *bench) {
			for _, e := range []nexjob.Entry{{Kind: "", Name: "a"}, {Kind: "k", Name: ""}, {Kind: "k", Name: "a\x00b"}} {
				got := b.put(nexjob.Put{Entry: e})
				b.check(!got.Done, "entry %q %q was written", e.Kind, e.Name)
				b.is(got.Err, nexjob.ErrInvalid, fmt.Sprintf("entry %q %q", e.Kind, e.Name))
			}
		}},
		{"an empty batch is nothing", func(b *bench) { b.puts() }},
	}
}

const entryKind = "pause"

func entry(name, value string) nexjob.Entry {
	return nexjob.Entry{Kind: entryKind, Name: name, Value: []byte(value)}
}

func (b *bench) puts(puts ...nexjob.Put) []nexjob.PutAnswer {
	b.t.Helper()
	answers, err := b.s.Put(b.ctx, b.now(), puts)
	b.must(err, "Put")
	b.need(len(answers) == len(puts), "Put of %d entries gives %d answers", len(puts), len(answers))
	return answers
}

func (b *bench) put(p nexjob.Put) nexjob.PutAnswer {
	b.t.Helper()
	return b.puts(p)[0]
}

func (b *bench) entries() []nexjob.Entry {
	b.t.Helper()
	entries, err := b.s.Entries(b.ctx, b.now(), entryKind)
	b.must(err, "Entries")
	return entries
}

func entryLife(b *bench) {
	b.equal("answer to the first write", nexjob.PutAnswer{Done: true, Version: 1}, b.put(nexjob.Put{Entry: entry("a", "1")}))
	first := b.now()
	b.equal("entries", []nexjob.Entry{{
		Kind: entryKind, Name: "a", Version: 1, Value: []byte("1"), UpdatedAt: first,
	}}, b.entries())
	b.pass(time.Second)
	e := entry("a", "2")
	e.ExpiresAt = b.now().Add(time.Hour)
	b.equal("answer to the swap", nexjob.PutAnswer{Done: true, Version: 2}, b.put(nexjob.Put{Entry: e, If: 1}))
	b.equal("entries", []nexjob.Entry{{
		Kind: entryKind, Name: "a", Version: 2, Value: []byte("2"), UpdatedAt: b.now(), ExpiresAt: e.ExpiresAt,
	}}, b.entries())
	b.equal("answer to the delete", nexjob.PutAnswer{Done: true}, b.put(nexjob.Put{Entry: entry("a", ""), If: 2, Delete: true}))
	b.equal("entries", 0, len(b.entries()))
	b.check(b.put(nexjob.Put{Entry: entry("a", "3")}).Done, "a deleted name cannot be used again")
}

func entryConflicts(b *bench) {
	b.put(nexjob.Put{Entry: entry("a", "1")})
	b.put(nexjob.Put{Entry: entry("a", "2"), If: 1})
	before := b.entries()
	for name, p := range map[string]nexjob.Put{
		"a creation":      {Entry: entry("a", "x")},
		"an old version":  {Entry: entry("a", "x"), If: 1},
		"a version ahead": {Entry: entry("a", "x"), If: 3},
		"an old delete":   {Entry: entry("a", ""), If: 1, Delete: true},
	} {
		b.equal("answer to "+name, nexjob.PutAnswer{Version: 2}, b.put(p))
		b.equal("entries after "+name, before, b.entries())
	}
	got := b.put(nexjob.Put{Entry: entry("none", ""), If: 1, Delete: true})
	b.check(got.Version == 0 && got.Err == nil, "a delete of nothing: %+v", got)
}

func entryExpires(b *bench) {
	e := entry("a", "1")
	e.ExpiresAt = b.now().Add(time.Minute)
	b.put(nexjob.Put{Entry: e})
	b.put(nexjob.Put{Entry: entry("b", "1")})
	b.pass(time.Minute - time.Second)
	b.equal("entries just before", 2, len(b.entries()))
	b.pass(2 * time.Second)
	left := b.entries()
	b.check(len(left) == 1 && left[0].Name == "b", "entries just after: %+v", left)
	got := b.put(nexjob.Put{Entry: entry("a", "x"), If: 1})
	b.check(!got.Done, "an expired entry was swapped: %+v", got)
	got = b.put(nexjob.Put{Entry: entry("a", "2")})
	b.check(got.Done, "an expired entry stands in the way of a new one: %+v", got)
	b.equal("entries", 2, len(b.entries()))
}

func entriesByName(b *bench) {
	names := []string{"A", "a", "a/b", "b", "ä", "\U0001F600"}
	for i := range names {
		b.check(b.put(nexjob.Put{Entry: entry(names[(i*5+1)%len(names)], "\x00\xff")}).Done, "an entry was not written")
	}
	other := entry("other", "x")
	other.Kind = "Pause"
	b.check(b.put(nexjob.Put{Entry: other}).Done, "an entry of another kind was not written")
	var got []string
	for _, e := range b.entries() {
		got = append(got, e.Name)
		b.equal("value", []byte("\x00\xff"), e.Value)
	}
	b.equal("names", names, got)
}
