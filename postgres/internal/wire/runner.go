package wire

import "context"

// Statement is a text with a name, under which connections prepare it; one without a
// name is not prepared.
type Statement struct{ Name, Text string }

// Runner runs statements, one after the other.
type Runner interface {
	// Run runs a statement, calls take for every row of its answer, and answers how many
	// rows it changed or gave.
	Run(ctx context.Context, s Statement, take func(Row) error, args ...Arg) (int64, error)
}

// Call is a statement with its arguments and who takes its rows, nil for nobody.
type Call struct {
	Statement Statement
	Args      []Arg
	Take      func(Row) error
}

// Row is one row of an answer. What its methods return may be kept, the Row itself not.
// A column that is NULL is the zero value.
type Row interface {
	Null(i int) bool
	// Int64 reads a number of any width; true is 1.
	Int64(i int) int64
	Text(i int) string
	// Same is Text that answers before where it is that.
	Same(i int, before string) string
	Bytes(i int) []byte
	// UUID reads the 16 bytes of a uuid.
	UUID(i int) [16]byte
	// Copy fills into with the bytes of a column, as far as they go.
	Copy(i int, into []byte)
}
