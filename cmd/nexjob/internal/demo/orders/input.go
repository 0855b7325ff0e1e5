// Package orders reads what the demo works on: JSON Lines, an order each, of which
// some come again. A mistake names its line, and nothing is taken of an input with one.
//
// It stands on package input, for lines and mistakes, and on the root package, for its
// strict reading of JSON, and knows nothing of jobs or of the run. Start reading at Open,
// then at Line.
package orders

import (
	"bytes"
	_ "embed" // for the orders that ship with the program
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
)

// shipped are the orders of a run without --input: twelve of nine customers, out of
// order, five of them sent more than once.
//
//go:embed orders.jsonl
var shipped []byte

// Shipped is what messages call the orders that come with the program.
const Shipped = "orders.jsonl"

// Limits of the input. They keep a mistake, such as a file of another kind, from
// being worked as if it were meant.
const (
	maxLine   = 64 << 10   // bytes of one line
	MaxOrders = 100_000    // different orders of one run
	maxCents  = 99_999_999 // of one order
	maxID     = 1 << 53    // the largest whole number that every JSON reader keeps
)

// Line is one line of the input: the shop is told of an order, perhaps again.
type Line struct {
	OrderID int64 `json:"order_id"`
	// Customer is the e-mail address that the welcome goes to; several orders may have
	// the same. An order without one has a customer to itself, customer-N@example.org.
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
	Currency string `json:"currency"` // three capital letters
	// AfterSuccess says that this repeat is sent only once the order has been
	// charged: an impatient customer, or a message delivered again days later.
	AfterSuccess bool `json:"after_success,omitempty"`
}

// Open reads all lines of the input: the shipped ones for "", standard input for "-",
// else a file. It returns the name that messages call it by.
func Open(name string, stdin io.Reader) ([]Line, string, error) {
	switch name {
	case "":
		lines, err := read(Shipped, bytes.NewReader(shipped))
		return lines, Shipped, err
	case "-":
		lines, err := read("stdin", stdin)
		return lines, "stdin", err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, name, input.Unreadable(name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	lines, err := read(name, file)
	return lines, name, err
}

// read reads JSON Lines. It goes to the end before anything is done with a
// line, so that a mistake in the last one leaves nothing half done. Every error is an
// *input.Error.
func read(name string, r io.Reader) ([]Line, error) {
	from := input.NewLines(r, maxLine)
	var lines []Line
	first := make(map[int64]place)
	for {
		text, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, input.Unreadable(name, err)
		}
		line, err := parseLine(text)
		if err == nil {
			err = agrees(line, first[line.OrderID])
		}
		if err != nil {
			return nil, &input.Error{Name: name, Line: text.Number, Why: err.Error()}
		}
		if _, seen := first[line.OrderID]; !seen {
			first[line.OrderID] = place{line, text.Number}
		}
		lines = append(lines, line)
	}
	switch {
	case len(lines) == 0:
		return nil, input.Wrong(name, "there is no order in it")
	case len(first) > MaxOrders:
		return nil, input.Wrong(name, "%d orders: at most %d", len(first), MaxOrders)
	}
	return lines, nil
}

// place is where an order was named first; the zero place is nowhere.
type place struct {
	line   Line
	number int
}

// parseLine reads one order. A name that is unknown or given twice is refused: in
// an order a misspelt or ambiguous amount must not pass for another one.
func parseLine(given input.Line) (Line, error) {
	var line Line
	text := given.Text
	if given.Err != nil {
		return line, given.Err
	}
	if _, err := nexjob.CanonicalJSON(text); err != nil { // refuses a name given twice
		return line, errors.New(jsonFault(err))
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return line, errors.New(jsonFault(err))
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(text, &names); err != nil {
		return line, errors.New(jsonFault(err))
	}
	for name := range names { // Unmarshal would also take Cents for cents
		if !slices.Contains([]string{"order_id", "customer", "cents", "currency", "after_success"}, name) {
			return line, fmt.Errorf("%q is no field of an order: want order_id, customer, cents, currency, after_success", name)
		}
	}
	if _, given := names["customer"]; !given {
		line.Customer = fmt.Sprintf("customer-%d@example.org", line.OrderID)
	}
	switch {
	case line.OrderID < 1 || line.OrderID > maxID:
		return line, fmt.Errorf("order_id is %d or missing: want a whole number from 1 to %d", line.OrderID, maxID)
	case line.Cents < 1 || line.Cents > maxCents:
		return line, fmt.Errorf("cents is %d or missing: want 1 to %d", line.Cents, maxCents)
	case len(line.Currency) != 3 || strings.Trim(line.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return line, fmt.Errorf("currency is %q or missing: want three capital letters", line.Currency)
	case !isAddress(line.Customer):
		return line, fmt.Errorf("customer is %q: want a plain e-mail address such as ada@example.org", line.Customer)
	}
	return line, nil
}

// maxAddress is the longest address that SMTP can carry (RFC 5321, 4.5.3.1.3).
const maxAddress = 254

// isAddress takes addresses without quoting or comments, which stand in SMTP and in a
// header as they are. No mail leaves this machine, so nobody asks whose they are.
func isAddress(text string) bool {
	name, domain, ok := strings.Cut(text, "@")
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
	return ok && len(text) <= maxAddress && len(name) <= 64 && name != "" && domain != "" &&
		strings.Trim(name, letters+"+_") == "" && strings.Trim(domain, letters) == "" &&
		!strings.Contains(text, "..") && strings.Trim(name, ".") == name && strings.Trim(domain, ".-") == domain
}

// jsonFault words what the decoder found for someone who wrote the line, not the
// program.
func jsonFault(err error) string {
	var wrongType *json.UnmarshalTypeError
	var invalid *nexjob.InvalidError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return fmt.Sprintf("a JSON %s: want an object", wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Sprintf("%s is a JSON %s: want %s", wrongType.Field, wrongType.Value, plainType(wrongType))
	case errors.As(err, &invalid):
		return "not one JSON object: " + invalid.Why
	}
	return err.Error()
}

func plainType(err *json.UnmarshalTypeError) string {
	switch err.Type.String() {
	case "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "text"
}

// agrees checks a line against the first that named its order.
func agrees(line Line, first place) error {
	switch {
	case first.number == 0 && line.AfterSuccess:
		return fmt.Errorf("order %d is repeated after its success, but no line before this one sends it", line.OrderID)
	case first.number == 0:
		return nil
	case line.Customer != first.line.Customer:
		return fmt.Errorf("order %d is of %s here and of %s on line %d: give a changed order a number of its own",
			line.OrderID, line.Customer, first.line.Customer, first.number)
	case line.Cents != first.line.Cents || line.Currency != first.line.Currency:
		return fmt.Errorf("order %d is %s here and %s on line %d: give a changed order a number of its own",
			line.OrderID, line.Amount(), first.line.Amount(), first.number)
	}
	return nil
}

// Amount returns the amount as people write it.
func (l Line) Amount() string {
	return fmt.Sprintf("%d.%02d %s", l.Cents/100, l.Cents%100, l.Currency)
}

// Select returns the lines of the first n different orders. When the input holds
// fewer, the rest is made up, with repeats and shared customers in about the same
// proportion; n = 0 takes what the input holds.
func Select(lines []Line, n int, random *rand.Rand) []Line {
	chosen := make(map[int64]bool)
	var selected []Line
	last := Line{}
	for _, line := range lines {
		if !chosen[line.OrderID] {
			if n > 0 && len(chosen) == n {
				continue
			}
			chosen[line.OrderID] = true
		}
		last.OrderID = max(last.OrderID, line.OrderID)
		selected = append(selected, line)
	}
	for missing := n - len(chosen); missing > 0; missing-- {
		line := Line{OrderID: last.OrderID + 1, Cents: 100 + random.Int64N(50_000), Currency: "EUR"}
		line.Customer = fmt.Sprintf("customer-%d@example.org", line.OrderID)
		if random.IntN(10) < 3 && last.Customer != "" {
			line.Customer = last.Customer
		}
		last = line
		selected = append(selected, line)
		if random.IntN(10) < 3 {
			selected = append(selected, line)
		}
		if random.IntN(10) < 3 {
			line.AfterSuccess = true
			selected = append(selected, line)
		}
	}
	return selected
}

// First returns each different order once, by its first line.
func First(lines []Line) []Line {
	return firstBy(lines, func(l Line) int64 { return l.OrderID })
}

// FirstOfCustomers returns the first line of each different customer.
func FirstOfCustomers(lines []Line) []Line {
	return firstBy(lines, func(l Line) string { return l.Customer })
}

func firstBy[K comparable](lines []Line, of func(Line) K) []Line {
	seen := make(map[K]bool)
	var first []Line
	for _, line := range lines {
		if key := of(line); !seen[key] {
			seen[key] = true
			first = append(first, line)
		}
	}
	return first
}
