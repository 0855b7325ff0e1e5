package nexjob

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of what a job may carry. Each is checked before anything is written and
// answered with *InvalidError; nothing is silently truncated but error text,
// which is cut with a mark.
const (
	MaxKey          = 512                   // bytes of an idempotency key
	MaxArgs         = 1 << 20               // bytes of a job's args
	MaxResult       = 1 << 20               // bytes of a job's result
	MaxName         = 128                   // bytes of a kind, queue, worker, effect or tag
	MaxTags         = 32                    // tags of one job
	MaxMeta         = 16 << 10              // bytes of all metadata names and values of one job
	MaxParents      = 1000                  // parents of one job
	MaxError        = 16 << 10              // bytes of an error text; longer ones are cut with a mark
	MaxReceipts     = 1000                  // receipts of one operation
	MaxReceiptBytes = 1 << 20               // bytes of the values of one operation's receipts
	MaxEntryValue   = 64 << 10              // bytes of an entry's value
	MaxAttemptsKept = 50                    // ended attempts kept per job, the newest
	MaxFollowers    = 10_000                // jobs added by one settlement
	MaxFollowerKept = 100                   // followers' answers kept per job
	MaxPage         = 1000                  // records in one page of Find
	MaxAttemptsEver = 1_000_000             // tries that MaxAttempts may ask for
	MaxDuration     = 10 * 8766 * time.Hour // ten years: of delays, time-outs and key lives

	DefaultQueue       = "default"
	DefaultMaxAttempts = 10
	DefaultCrashLimit  = 5
	DefaultPage        = 100
)

// Validate checks an item against the limits and returns *InvalidError for the
// first mistake. Engines call it for every item, so no path can go around it.
func (n *NewJob) Validate() error {
	if n.Err != nil {
		return n.Err
	}
	if n.ID.IsZero() {
		return invalid("id", "it is zero", "make one with nexjob.NewID")
	}
	if err := ValidateName("kind", n.Kind); err != nil {
		return err
	}
	if err := ValidateName("queue", n.QueueOrDefault()); err != nil {
		return err
	}
	if p := n.PriorityOrDefault(); p > Low {
		return invalid("priority", fmt.Sprintf("%d is none", p), "use Critical, High, Normal or Low")
	}
	if n.DuplicatePolicy > RejectAlways {
		return invalid("duplicate policy", fmt.Sprintf("%d is none", n.DuplicatePolicy),
			"use AllowAfterFailed, RejectIfFailed or RejectAlways")
	}
	if n.WhileActive > Replace {
		return invalid("while active", fmt.Sprintf("%d is none", n.WhileActive),
			"use ReturnExisting, Reject or Replace")
	}
	if err := validateArgs(n.Args); err != nil {
		return err
	}
	if n.IdempotencyKey != "" {
		if err := ValidateKey(n.IdempotencyKey); err != nil {
			return err
		}
	}
	if n.MaxAttempts < 0 || n.MaxAttempts > MaxAttemptsEver {
		return invalid("max attempts", fmt.Sprint(n.MaxAttempts), fmt.Sprintf("1 to %d", MaxAttemptsEver))
	}
	if err := n.validateTimes(); err != nil {
		return err
	}
	return n.validateLists()
}

func validateArgs(args []byte) error {
	if len(args) > MaxArgs {
		return invalid("args", fmt.Sprintf("%d bytes", len(args)),
			fmt.Sprintf("at most %d; store large input elsewhere and pass its name", MaxArgs))
	}
	return nil
}

func (n *NewJob) validateTimes() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"delay", n.Delay},
		{"timeout", n.Timeout},
		{"deadline after", n.DeadlineAfter},
		{"keep key for", n.KeepKeyFor},
	} {
		if d.value < 0 || d.value > MaxDuration {
			return invalid(d.name, d.value.String(), fmt.Sprintf("0 to %s", MaxDuration))
		}
	}
	for _, t := range []struct {
		name  string
		value time.Time
	}{{"due at", n.DueAt}, {"deadline", n.Deadline}} {
		if year := t.value.UTC().Year(); !t.value.IsZero() && (year < 1970 || year > 9999) {
			return invalid(t.name, t.value.String(), "a year from 1970 to 9999 in UTC")
		}
	}
	if n.KeepKeyFor > 0 && n.IdempotencyKey == "" {
		return invalid("keep key for", "there is no idempotency key", "set one, or leave it out")
	}
	return nil
}

func (n *NewJob) validateLists() error {
	if len(n.Tags) > MaxTags {
		return invalid("tags", fmt.Sprint(len(n.Tags)), fmt.Sprintf("at most %d", MaxTags))
	}
	for _, tag := range n.Tags {
		if err := ValidateName("tag", tag); err != nil {
			return err
		}
	}
	size := 0
	for name, value := range n.Meta {
		if err := ValidateName("metadata name", name); err != nil {
			return err
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return invalid("metadata "+name, "it is not valid UTF-8, or contains NUL", "encode it")
		}
		size += len(name) + len(value)
	}
	if size > MaxMeta {
		return invalid("metadata", fmt.Sprintf("%d bytes", size), fmt.Sprintf("at most %d", MaxMeta))
	}
	return n.validateParents()
}

func (n *NewJob) validateParents() error {
	if len(n.Parents) == 0 {
		return nil
	}
	if len(n.Parents) > MaxParents {
		return invalid("parents", fmt.Sprint(len(n.Parents)), fmt.Sprintf("at most %d", MaxParents))
	}
	seen := make(map[ID]bool, len(n.Parents))
	for _, p := range n.Parents {
		switch {
		case p.ID.IsZero() || p.ID == n.ID:
			return invalid("parent", p.ID.String(), "name another job")
		case p.Rule > OnAnyEnd:
			return invalid("parent rule", fmt.Sprint(uint8(p.Rule)), "use OnSuccess, OnFailure or OnAnyEnd")
		case seen[p.ID]:
			return invalid("parent", p.ID.String()+" is named twice", "name it once")
		}
		seen[p.ID] = true
	}
	return nil
}

// ValidateKey checks an idempotency key: 1 to MaxKey bytes of valid UTF-8. A key
// that contains NUL is refused unless NUL is its first byte, which marks the keys
// that nexjob derives itself; the client refuses those too.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return invalid("idempotency key", "it is empty", fmt.Sprintf("1 to %d bytes", MaxKey))
	case len(key) > MaxKey:
		return invalid("idempotency key", fmt.Sprintf("%d bytes", len(key)),
			fmt.Sprintf("at most %d; hash a longer one", MaxKey))
	case !utf8.ValidString(key):
		return invalid("idempotency key", "it is not valid UTF-8", "encode it, in hexadecimal for example")
	case strings.ContainsRune(key[1:], 0):
		return invalid("idempotency key", "it contains NUL", "leave it out or encode it")
	}
	return nil
}

// ValidateName checks the name of a kind, queue, tag, effect or worker: 1 to
// MaxName bytes of valid UTF-8 without control characters or outer spaces. The
// same rule holds where a job is enqueued and where it is served.
func ValidateName(what, name string) error {
	switch {
	case name == "":
		return invalid(what, "it is empty", fmt.Sprintf("1 to %d bytes", MaxName))
	case len(name) > MaxName:
		return invalid(what, fmt.Sprintf("%d bytes", len(name)), fmt.Sprintf("at most %d", MaxName))
	case !utf8.ValidString(name):
		return invalid(what, "it is not valid UTF-8", "encode it")
	case strings.ContainsFunc(name, unicode.IsControl):
		return invalid(what, fmt.Sprintf("%q contains a control character", name), "leave it out")
	case strings.TrimSpace(name) != name:
		return invalid(what, fmt.Sprintf("%q begins or ends with a space", name), "trim it")
	}
	return nil
}

// CutText shortens text to limit bytes at a character's border, marks the cut,
// and makes odd bytes visible, so that no error text can fail to be stored.
func CutText(text string, limit int) string {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(text) <= limit {
		return text
	}
	mark := " … (cut)"
	if limit < len(mark) {
		mark = ""
	}
	cut := max(limit-len(mark), 0)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
