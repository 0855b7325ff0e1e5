package outside

import (
	"context"
	"net"
	"sync"
	"time"
)

// lines are the connections of the SMTP server. The library's own Close can miss a
// connection that was accepted a moment ago, and waits for nobody; here each is
// known from its first moment on, and ended is closed when none is left.
type lines struct {
	ended    chan struct{}
	stopOnce sync.Once
	serving  sync.WaitGroup // the calls of Serve

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	open      map[*line]struct{}
	stopped   bool // no listener is served any more
	severed   bool // no connection is kept
}

func newLines() *lines {
	return &lines{
		ended:     make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		open:      make(map[*line]struct{}),
	}
}

// enter returns the listener to serve, and what is to be called when it no longer
// is. After stop, that listener is closed already.
func (s *lines) enter(l net.Listener) (counted net.Listener, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		_ = l.Close()
		return l, func() {}
	}
	s.listeners[l] = struct{}{}
	s.serving.Add(1)
	return &counting{l, s}, func() {
		_ = l.Close()
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		s.serving.Done()
	}
}

// stop closes the listeners. ended is closed when finish, which waits for the
// connections, has returned.
func (s *lines) stop(finish func()) {
	s.stopOnce.Do(func() {
		s.mu.Lock()
		s.stopped = true
		for l := range s.listeners {
			_ = l.Close()
		}
		s.mu.Unlock()
		go func() {
			defer close(s.ended)
			s.serving.Wait() // from here on nothing is accepted
			finish()
		}()
	})
}

func (s *lines) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// cut closes every connection, and those still to come.
func (s *lines) cut() {
	s.mu.Lock()
	s.severed = true
	open := s.open
	s.open = make(map[*line]struct{})
	s.mu.Unlock()
	for l := range open {
		_ = l.Conn.Close()
	}
}

func (s *lines) add(c net.Conn) net.Conn {
	l := &line{Conn: c, lines: s}
	s.mu.Lock()
	severed := s.severed
	s.open[l] = struct{}{}
	s.mu.Unlock()
	if severed {
		_ = l.Close()
	}
	return l
}

func (s *lines) remove(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, l)
}

// counting is a listener whose connections are lines.
type counting struct {
	net.Listener
	lines *lines
}

// Accept waits for the next connection.
func (c *counting) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c.lines.add(accepted), nil
}

// line is a connection that can be watched while nobody reads from it.
type line struct {
	net.Conn
	lines *lines
	ahead []byte // what a watch read
}

// Close closes the connection.
func (l *line) Close() error {
	l.lines.remove(l)
	return l.Conn.Close()
}

// Read reads what a watch has read, then from the connection.
func (l *line) Read(b []byte) (int, error) {
	if len(l.ahead) > 0 {
		n := copy(b, l.ahead)
		l.ahead = l.ahead[n:]
		return n, nil
	}
	return l.Conn.Read(b)
}

// maxAhead bounds what a watch reads of commands sent ahead. Behind more than that
// it does not see the connection end.
const maxAhead = 4 << 10

// watch returns a context that ends when the connection does, seen from here: the
// client closed it, or its sending half, or the server closed it. Nobody may read
// from the connection until stop was called.
func (l *line) watch() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	_ = l.SetReadDeadline(time.Time{}) // a gate may hold the call for longer than a read may take
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for len(l.ahead) < maxAhead {
			n, err := l.Conn.Read(buffer)
			l.ahead = append(l.ahead, buffer[:n]...)
			if err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, func() {
		_ = l.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; the server sets its own for the next command
		<-done
		cancel()
	}
}
