package wire

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLiterals: a list in text says what the same list says in binary, whatever its items
// hold.
func TestLiterals(t *testing.T) {
	t.Parallel()
	texts := Texts(1, 1)
	for _, item := range []string{`a`, `NULL`, ` b `, `c,d`, `{e}`, `f"g`, `h\i`, "j\nk", "ä"} {
		texts.Text(item)
	}
	texts.TextOrNull("")
	texts.Text("")
	bytes := Byteas(1, 1)
	bytes.Bytes([]byte{0, 0xff, '\\'})
	bytes.BytesOrNull(nil)
	bytes.Text("k")
	big, small := Bigints(1), Smallints(1)
	for _, n := range []int64{math.MinInt64, -1, math.MaxInt64} {
		big.Int(n)
	}
	big.IntOrNull(0)
	small.Int(-1)
	small.Int(math.MaxInt16)
	ids := UUIDs(1)
	ids.Bytes([]byte("0123456789abcdef"))
	for want, list := range map[string]*List{
		`{"a","NULL"," b ","c,d","{e}","f\"g","h\\i",` + "\"j\nk\",\"ä\"" + `,NULL,""}`: texts,
		`{"\\x00ff5c",NULL,"\\x6b"}`:                         bytes,
		`{-9223372036854775808,-1,9223372036854775807,NULL}`: big,
		`{-1,32767}`:                             small,
		`{30313233-3435-3637-3839-616263646566}`: ids,
		`{}`:                                     Texts(0, 0),
	} {
		if diff := cmp.Diff(any(want), list.Arg().literal()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestRows: a value is read the same in each of the forms that drivers of database/sql give.
func TestRows(t *testing.T) {
	t.Parallel()
	id := [16]byte([]byte("0123456789abcdef"))
	row := &sqlRow{values: []any{
		int64(-7), int32(-7), "-7", []byte("-7"), // 0 to 3
		true, "t", []byte("true"), // 4 to 6
		id, id[:], uuidText(id), []byte(uuidText(id)), // 7 to 10
		"text", []byte("text"), nil, // 11 to 13
	}}
	for i := range 4 {
		if n := row.Int64(i); n != -7 {
			t.Errorf("column %d is %d", i, n)
		}
	}
	for i := 4; i < 7; i++ {
		if n := row.Int64(i); n != 1 {
			t.Errorf("column %d is %d", i, n)
		}
	}
	for i := 7; i < 11; i++ {
		if got := row.UUID(i); got != id {
			t.Errorf("column %d is %x", i, got)
		}
	}
	for i := 11; i < 13; i++ {
		if row.Text(i) != "text" || string(row.Bytes(i)) != "text" || row.Same(i, "other") != "text" || row.Null(i) {
			t.Errorf("column %d is %q, %q", i, row.Text(i), row.Bytes(i))
		}
	}
	if !row.Null(13) || row.Int64(13) != 0 || row.Text(13) != "" || row.Bytes(13) != nil || row.UUID(13) != [16]byte{} {
		t.Error("NULL is something")
	}
	for n, b := range map[int64][]byte{
		-1: {0xff, 0xff}, -2: {0xff, 0xff, 0xff, 0xfe}, -3: {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd}, 1: {1},
	} {
		if got := number(b); got != n {
			t.Errorf("% x is %d", b, got)
		}
	}
}
