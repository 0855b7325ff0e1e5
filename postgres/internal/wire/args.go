package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// Arg is one argument of a statement, whose text casts it to the type that is named
// here. The zero Arg is NULL.
type Arg struct {
	binary  []byte // as PostgreSQL reads it; nil: NULL
	literal func() any
}

// Null is no value.
func Null() Arg { return Arg{} }

// Int8 is a bigint.
func Int8(n int64) Arg {
	return Arg{binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(n)), func() any { return n }} //nolint:gosec // the bits count
}

// Int2 is a smallint.
func Int2(n int16) Arg {
	return Arg{binary.BigEndian.AppendUint16(make([]byte, 0, 2), uint16(n)), func() any { return int64(n) }} //nolint:gosec // the bits count
}

// Int8OrNull is a bigint, NULL for zero.
func Int8OrNull(n int64) Arg {
	if n == 0 {
		return Arg{}
	}
	return Int8(n)
}

// Text is a text.
func Text(s string) Arg { return Arg{append(make([]byte, 0, len(s)), s...), func() any { return s }} }

// TextOrNull is a text, NULL for none.
func TextOrNull(s string) Arg {
	if s == "" {
		return Arg{}
	}
	return Text(s)
}

// Bytes is a bytea.
func Bytes(b []byte) Arg {
	if b == nil {
		b = []byte{}
	}
	return Arg{b, func() any { return b }}
}

// BytesOrNull is a bytea, NULL for none.
func BytesOrNull(b []byte) Arg {
	if len(b) == 0 {
		return Arg{}
	}
	return Bytes(b)
}

// Bool is a boolean.
func Bool(b bool) Arg {
	bits := []byte{0}
	if b {
		bits[0] = 1
	}
	return Arg{bits, func() any { return b }}
}

// UUID is a uuid.
func UUID(id [16]byte) Arg {
	return Arg{append(make([]byte, 0, 16), id[:]...), func() any { return uuidText(id) }}
}

func uuidText(id [16]byte) string {
	text := hex.EncodeToString(id[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// The numbers by which PostgreSQL knows the types of elements.
const (
	oidBytea = 17
	oidInt8  = 20
	oidInt2  = 21
	oidText  = 25
	oidUUID  = 2950
)

// List builds an array, item by item.
type List struct {
	oid     uint32
	n       int
	nulls   bool
	items   []byte // each with its length before it
	literal func(item []byte) string
}

const headerSize = 20

// Bigints is a list of bigint. It, and the lists of other types below, make room for n
// items, of about size bytes.
func Bigints(n int) *List { return newList(oidInt8, n, 8, intLiteral) }

// Smallints is a list of smallint.
func Smallints(n int) *List { return newList(oidInt2, n, 2, intLiteral) }

// Texts is a list of text.
func Texts(n, size int) *List { return newList(oidText, n, size, textLiteral) }

// Byteas is a list of bytea.
func Byteas(n, size int) *List { return newList(oidBytea, n, size, byteaLiteral) }

// UUIDs is a list of uuid.
func UUIDs(n int) *List { return newList(oidUUID, n, 16, uuidLiteral) }

func newList(oid uint32, n, size int, literal func([]byte) string) *List {
	return &List{oid: oid, items: make([]byte, headerSize, headerSize+n*(size+4)), literal: literal}
}

// Null adds NULL.
func (l *List) Null() {
	l.n++
	l.nulls = true
	l.items = append(l.items, 0xff, 0xff, 0xff, 0xff)
}

// Bytes adds an item by its bytes, as PostgreSQL reads them.
func (l *List) Bytes(item []byte) {
	l.n++
	l.items = binary.BigEndian.AppendUint32(l.items, uint32(len(item))) //nolint:gosec // items are a few MiB at most
	l.items = append(l.items, item...)
}

// BytesOrNull adds an item, NULL for an empty one.
func (l *List) BytesOrNull(item []byte) {
	if len(item) == 0 {
		l.Null()
		return
	}
	l.Bytes(item)
}

// Text adds a text, or a bytea of its bytes.
func (l *List) Text(item string) {
	l.n++
	l.items = binary.BigEndian.AppendUint32(l.items, uint32(len(item))) //nolint:gosec // likewise
	l.items = append(l.items, item...)
}

// TextOrNull adds a text, NULL for an empty one.
func (l *List) TextOrNull(item string) {
	if item == "" {
		l.Null()
		return
	}
	l.Text(item)
}

// Int adds a number to a list of numbers.
func (l *List) Int(n int64) {
	l.n++
	if l.oid == oidInt2 {
		l.items = binary.BigEndian.AppendUint32(l.items, 2)
		l.items = binary.BigEndian.AppendUint16(l.items, uint16(n)) //nolint:gosec // small by its type
		return
	}
	l.items = binary.BigEndian.AppendUint32(l.items, 8)
	l.items = binary.BigEndian.AppendUint64(l.items, uint64(n)) //nolint:gosec // the bits count
}

// IntOrNull adds a number, NULL for zero.
func (l *List) IntOrNull(n int64) {
	if n == 0 {
		l.Null()
		return
	}
	l.Int(n)
}

// Arg is the list as an argument. Nothing may be added to it afterwards.
func (l *List) Arg() Arg {
	if l.n == 0 { // an array without items has no dimension
		empty := make([]byte, 12)
		binary.BigEndian.PutUint32(empty[8:], l.oid)
		return Arg{empty, func() any { return "{}" }}
	}
	head := l.items
	binary.BigEndian.PutUint32(head[0:], 1)
	if l.nulls {
		binary.BigEndian.PutUint32(head[4:], 1)
	}
	binary.BigEndian.PutUint32(head[8:], l.oid)
	binary.BigEndian.PutUint32(head[12:], uint32(l.n)) //nolint:gosec // batches are thousands
	binary.BigEndian.PutUint32(head[16:], 1)
	return Arg{head, func() any { return l.text() }}
}

// text is the list as an array literal.
func (l *List) text() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, rest := 0, l.items[headerSize:]; i < l.n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if size == 0xffffffff {
			b.WriteString("NULL")
			continue
		}
		b.WriteString(l.literal(rest[:size]))
		rest = rest[size:]
	}
	b.WriteByte('}')
	return b.String()
}

func intLiteral(item []byte) string { return strconv.FormatInt(number(item), 10) }

func byteaLiteral(item []byte) string { return `"\\x` + hex.EncodeToString(item) + `"` }

func textLiteral(item []byte) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(item)) + `"`
}

func uuidLiteral(item []byte) string { return uuidText([16]byte(item)) }

// number reads a number of any width.
func number(b []byte) int64 {
	switch len(b) {
	case 1:
		return int64(b[0])
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))) //nolint:gosec // the bits count
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))) //nolint:gosec // likewise
	case 8:
		return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // likewise
	}
	return 0
}
