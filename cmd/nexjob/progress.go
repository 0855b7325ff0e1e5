package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// progress is one line on a terminal that tells how far a command is. Where stderr is
// no terminal it writes nothing: a log has no use for it.
type progress struct {
	to    io.Writer // nil: nothing is shown
	total int64     // bytes; 0: not known
	read  atomic.Int64
	began time.Time
	drawn time.Time
	width int // of what stands there
}

// newProgress begins to count.
func newProgress(to io.Writer, total int64) *progress {
	p := &progress{total: total, began: time.Now()}
	if terminal(to) && os.Getenv("TERM") != "dumb" {
		p.to = to
	}
	return p
}

// reader counts what is read from r.
func (p *progress) reader(r io.Reader) io.Reader { return &counting{r, &p.read} }

type counting struct {
	io.Reader
	n *atomic.Int64
}

// Read reads and counts.
func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// show draws the line, a few times per second at most.
func (p *progress) show(lines int) {
	now := time.Now()
	if p.to == nil || now.Sub(p.drawn) < 150*time.Millisecond {
		return
	}
	p.drawn = now
	p.draw(p.text(lines, now))
}

// text is what the line says.
func (p *progress) text(lines int, now time.Time) string {
	rate := float64(lines) / max(now.Sub(p.began).Seconds(), 0.001)
	text := fmt.Sprintf("%d lines, %.0f/s", lines, rate)
	if p.total <= 0 {
		return text
	}
	const cells = 30
	done := min(float64(p.read.Load())/float64(p.total), 1)
	full := int(done * cells)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("=", full), strings.Repeat(" ", cells-full), done*100, text)
}

// draw writes over what stands there.
func (p *progress) draw(text string) {
	fmt.Fprintf(p.to, "\r%-*s", p.width, text)
	p.width = len(text)
}

// clear leaves the line empty for what comes next.
func (p *progress) clear() {
	if p.to != nil && p.width > 0 {
		fmt.Fprintf(p.to, "\r%*s\r", p.width, "")
	}
}
