package orders

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
)

const okLine = `{"order_id":1,"cents":100,"currency":"EUR"}`

func TestShippedOrders(t *testing.T) {
	lines, name, err := Open("", nil)
	if err != nil || name != Shipped {
		t.Fatalf("%v, %q", err, name)
	}
	if n := len(First(lines)); n != 12 {
		t.Errorf("%d different orders, want 12", n)
	}
	if n := len(FirstOfCustomers(lines)); n != 9 {
		t.Errorf("%d different customers, want 9: some have several orders", n)
	}
	if slices.IsSortedFunc(lines, func(a, b Line) int { return int(a.OrderID - b.OrderID) }) {
		t.Error("they should come out of order")
	}
	after, repeats := 0, 0
	for i, line := range lines {
		if line.AfterSuccess {
			after++
		} else if slices.ContainsFunc(lines[:i], func(l Line) bool { return l.OrderID == line.OrderID }) {
			repeats++
		}
	}
	if after < 2 || repeats < 2 {
		t.Errorf("%d repeats after success and %d others: both sorts should be there", after, repeats)
	}
}

func TestReadInput(t *testing.T) {
	text := "\uFEFF" + okLine + "\r\n\n" + okLine + "\n" +
		` {"currency":"USD","order_id":2,"cents":99999999,"customer":"a.b+c@x-y.example"} ` + "\n" +
		`{"order_id":1,"cents":100,"currency":"EUR","after_success":true}`
	got, err := read("in", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{OrderID: 1, Customer: "customer-1@example.org", Cents: 100, Currency: "EUR"},
		{OrderID: 1, Customer: "customer-1@example.org", Cents: 100, Currency: "EUR"},
		{OrderID: 2, Customer: "a.b+c@x-y.example", Cents: 99999999, Currency: "USD"},
		{OrderID: 1, Customer: "customer-1@example.org", Cents: 100, Currency: "EUR", AfterSuccess: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadInputNamesItsPlace(t *testing.T) {
	tests := []struct {
		name, text, want string // want is the beginning of the message
	}{
		{"empty", "", "in: there is no order in it"},
		{"only blank lines", "\n \n", "in: there is no order in it"},
		{"no JSON", okLine + "\nhello\n", "in:2: not one JSON object: "},
		{"cut off", okLine + "\n" + `{"order_id":2,"cents":`, "in:2: not one JSON object: "},
		{"two values", okLine + " {}", "in:1: not one JSON object: "},
		{"array", "[1]", "in:1: a JSON array: want an object"},
		{"null", "null", "in:1: order_id is 0 or missing"},
		{"name twice", `{"order_id":1,"cents":100,"cents":200,"currency":"EUR"}`, "in:1: not one JSON object: "},
		{"misspelt", `{"order_id":1,"cent":100,"currency":"EUR"}`, `in:1: "cent" is no field of an order`},
		{"other case", `{"order_id":1,"cents":100,"Cents":1,"currency":"EUR"}`, `in:1: "Cents" is no field of an order`},
		{"text for a number", `{"order_id":"1","cents":100,"currency":"EUR"}`, "in:1: order_id is a JSON string: want a whole number"},
		{"fraction", `{"order_id":1,"cents":1.5,"currency":"EUR"}`, "in:1: cents is a JSON number 1.5: want a whole number"},
		{"number for text", `{"order_id":1,"cents":1,"currency":978}`, "in:1: currency is a JSON number: want text"},
		{"text for a flag", `{"order_id":1,"cents":1,"currency":"EUR","after_success":"yes"}`, "in:1: after_success is a JSON string: want true or false"},
		{"no amount", `{"order_id":1,"currency":"EUR"}`, "in:1: cents is 0 or missing"},
		{"negative amount", `{"order_id":1,"cents":-5,"currency":"EUR"}`, "in:1: cents is -5 or missing"},
		{"huge amount", `{"order_id":1,"cents":100000000,"currency":"EUR"}`, "in:1: cents is 100000000 or missing"},
		{"huge number", `{"order_id":9007199254740993,"cents":1,"currency":"EUR"}`, "in:1: order_id is 9007199254740993 or missing"},
		{"small letters", `{"order_id":1,"cents":1,"currency":"eur"}`, `in:1: currency is "eur" or missing`},
		{"not UTF-8", "{\"order_id\":1,\"cents\":1,\"currency\":\"E\xff\"}", "in:1: not one JSON object: "},
		{"repeat after nothing", `{"order_id":1,"cents":1,"currency":"EUR","after_success":true}`, "in:1: order 1 is repeated after its success, but no line before"},
		{"changed order", okLine + "\n\n" + `{"order_id":1,"cents":101,"currency":"EUR"}`, "in:3: order 1 is 1.01 EUR here and 1.00 EUR on line 1"},
		{"empty customer", `{"order_id":1,"customer":"","cents":1,"currency":"EUR"}`, `in:1: customer is ""`},
		{"a name with the address", `{"order_id":1,"customer":"Ada <ada@example.org>","cents":1,"currency":"EUR"}`, `in:1: customer is "Ada <`},
		{"two lines for a header", `{"order_id":1,"customer":"ada@example.org\r\nBcc: x@example.org","cents":1,"currency":"EUR"}`, "in:1: customer is "},
		{"two addresses", `{"order_id":1,"customer":"ada@bob@example.org","cents":1,"currency":"EUR"}`, "in:1: customer is "},
		{"no domain", `{"order_id":1,"customer":"ada@","cents":1,"currency":"EUR"}`, "in:1: customer is "},
		{"long address", `{"order_id":1,"customer":"ada@` + strings.Repeat("a", 300) + `","cents":1,"currency":"EUR"}`, "in:1: customer is "},
		{"changed customer", okLine + "\n" + `{"order_id":1,"customer":"ada@example.org","cents":100,"currency":"EUR"}`, "in:2: order 1 is of ada@example.org here and of customer-1@example.org on line 1"},
		{"changed currency", okLine + "\n" + `{"order_id":1,"cents":100,"currency":"USD"}`, "in:2: order 1 is 1.00 USD here and 1.00 EUR on line 1"},
		{"long line", okLine + "\n" + strings.Repeat("x", maxLine+1), "in:2: longer than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := read("in", strings.NewReader(tt.text))
			if _, ok := errors.AsType[*input.Error](err); !ok || !strings.HasPrefix(err.Error(), tt.want) || lines != nil {
				t.Errorf("got %v, %v, want %q", lines, err, tt.want)
			}
		})
	}
}

func TestOpenInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my.jsonl")
	if err := os.WriteFile(file, []byte(okLine), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines, name, err := Open(file, nil); err != nil || len(lines) != 1 || name != file {
		t.Errorf("file: %v, %q, %v", lines, name, err)
	}
	if lines, name, err := Open("-", strings.NewReader(okLine)); err != nil || len(lines) != 1 || name != "stdin" {
		t.Errorf("standard input: %v, %q, %v", lines, name, err)
	}
	for _, name := range []string{filepath.Join(dir, "none.jsonl"), dir} {
		_, _, err := Open(name, nil)
		if _, ok := errors.AsType[*input.Error](err); !ok || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSelect(t *testing.T) {
	shipped, _, err := Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	random := func(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
	if diff := cmp.Diff(shipped, Select(shipped, 0, random(1))); diff != "" {
		t.Errorf("all of the input: %s", diff)
	}
	three := Select(shipped, 3, random(1))
	var ids []int64
	for _, line := range First(three) {
		ids = append(ids, line.OrderID)
	}
	if diff := cmp.Diff([]int64{1001, 1003, 1002}, ids); diff != "" {
		t.Errorf("the first three: %s", diff)
	}
	if len(three) != 5 {
		t.Errorf("the first three with their repeats are %d lines, want 5", len(three))
	}
	many := Select(shipped, 500, random(7))
	if n, customers := len(First(many)), len(FirstOfCustomers(many)); n != 500 || customers < 250 || customers > 450 {
		t.Errorf("%d different orders of %d customers, want 500 of fewer", n, customers)
	}
	if diff := cmp.Diff(many, Select(shipped, 500, random(7))); diff != "" {
		t.Errorf("equal seeds, different orders: %s", diff)
	}
	if cmp.Equal(many, Select(shipped, 500, random(8))) {
		t.Error("different seeds, equal orders")
	}
	var text strings.Builder
	for _, line := range many {
		row, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(row, '\n'))
	}
	again, err := read("made up", strings.NewReader(text.String()))
	if err != nil {
		t.Errorf("orders that were made up are no valid input: %v", err)
	}
	if diff := cmp.Diff(many, again); diff != "" {
		t.Error(diff)
	}
}
