package wire

import (
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// large is from which size of its arguments a call gets room of its own.
const large = 8 << 10

// rooms are buffers for large messages.
var rooms = sync.Pool{New: func() any { return new(room) }} //nolint:gochecknoglobals // as the standard library's pools

// room is a message without content, which is encoded into a buffer that has room for what
// follows. A connection's own buffer is small after each call, and would grow in many
// steps, each of which copies all before.
type room struct {
	buffer []byte
	need   int
}

// makeRoom makes room for a call's arguments, if they are large. done gives it back, once
// the connection has sent them and has taken another buffer; after an error it does not.
func makeRoom(conn *pgconn.PgConn, args []Arg) (done func(error)) {
	need := 0
	for i := range args {
		need += len(args[i].binary) + 4
	}
	if need < large {
		return func(error) {}
	}
	r := rooms.Get().(*room) //nolint:errcheck,forcetypeassert // nothing else is put there
	r.need = need + 256
	conn.Frontend().Send(r)
	return func(err error) {
		if err == nil {
			rooms.Put(r)
		}
	}
}

// Encode moves what waits to be sent into the room.
func (r *room) Encode(waiting []byte) ([]byte, error) {
	if need := len(waiting) + r.need; cap(r.buffer) < need {
		r.buffer = make([]byte, 0, need)
	}
	return append(r.buffer[:0], waiting...), nil
}

// Decode is never asked for.
func (r *room) Decode([]byte) error { return errors.ErrUnsupported }

// Frontend marks a message to the server.
func (r *room) Frontend() {}
