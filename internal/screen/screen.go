// Package screen shows a load while it runs: on a terminal one screen that is
// redrawn in place with each window, elsewhere one plain line a window.
//
// It draws what it is given and decides nothing: windows come from the load,
// outcomes from the watch over the thresholds, and the words at the end of a
// load are somebody else's. It has no goroutine and no clock of its own; Add
// draws. Titles and names come from users and from servers under test, so what
// would move the cursor is taken out of them.
package screen

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// Config says what to draw on.
type Config struct {
	// Out takes the drawing; standard error, so that results can be piped.
	Out io.Writer
	// Terminal redraws one screen in place. Without it each window is a line.
	Terminal bool
	// Color paints a Terminal's screen. NO_COLOR is for the caller to heed.
	Color bool
	// Size returns the terminal's columns and rows. It is asked at each redraw,
	// so that the screen follows a window that is resized. Where it is nil, or
	// answers with less than one of either, they are 80 and 24.
	Size func() (w, h int)
	// Title is the screen's first line: the target and what is offered.
	Title string
	// Total is how long load is offered, warm-up included. There is no bar
	// without one.
	Total time.Duration
	// Threads is how many event loops the generator has; less than one counts
	// as one. It is marked as busy above 80 % of a core for each.
	Threads int
}

// Screen is a load's drawing. It is not for concurrent use.
type Screen struct {
	cfg   Config
	tally *tally
	drawn []int // the columns of each line that stands on the terminal
	err   error // the first, from a window that cannot be read or from Out
}

// New returns a screen on which nothing is drawn yet.
func New(cfg Config) *Screen {
	cfg.Threads = max(cfg.Threads, 1)
	return &Screen{cfg: cfg, tally: newTally()}
}

// Add takes in a window and draws, with how the thresholds stand so far. What
// goes wrong is kept for Close: a load is not to end because nobody can see it.
func (s *Screen) Add(w load.Window, outcomes []threshold.Outcome) {
	s.note(s.tally.add(&w))
	if !s.cfg.Terminal {
		_, err := io.WriteString(s.cfg.Out, plain(s.tally, outcomes))
		s.note(err)
		return
	}
	width, height := s.size()
	s.redraw(s.lines(width, height, outcomes), width)
}

// Close ends the drawing: the cursor is left on a line of its own. It returns
// the first thing that went wrong since New.
func (s *Screen) Close() error {
	if len(s.drawn) > 0 {
		_, err := io.WriteString(s.cfg.Out, "\r\n")
		s.note(err)
		s.drawn = nil
	}
	if s.err != nil {
		return fmt.Errorf("show the load: %w", s.err)
	}
	return nil
}

func (s *Screen) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Screen) size() (w, h int) {
	if s.cfg.Size != nil {
		w, h = s.cfg.Size()
	}
	if w < 1 {
		w = 80
	}
	if h < 1 {
		h = 24
	}
	return w, h
}

// What a terminal is told, in the control sequences of ECMA-48 that every
// terminal has had since the VT100. Wrapping is off while a screen is drawn, so
// that a character that is wider than it looks cannot begin another row.
const (
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// redraw puts lines where the last ones stood. All goes out in one write, so
// that no half of a screen is seen.
func (s *Screen) redraw(lines []line, width int) {
	var b strings.Builder
	b.WriteString(s.home(width) + wrapOff)
	s.drawn = s.drawn[:0]
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		l = l.fit(width)
		l.paint(&b, s.cfg.Color)
		n := l.width()
		if n < width { // in the last column it would erase the last character
			b.WriteString(eraseRight)
		}
		s.drawn = append(s.drawn, n)
	}
	// What the last screen had below the end of this one.
	b.WriteString(eraseBelow + wrapOn)
	_, err := io.WriteString(s.cfg.Out, b.String())
	s.note(err)
}

// home moves the cursor from the end of the last screen to its beginning. The
// cursor stands at the end of the last line, so that a screen may fill the
// terminal. A terminal that has become narrower since has broken the lines that
// no longer fit, so they are counted by the rows that they take now.
func (s *Screen) home(width int) string {
	rows := 0
	for _, n := range s.drawn {
		rows += max(1, (n+width-1)/width)
	}
	if rows > 1 {
		return fmt.Sprintf("\r\x1b[%dA", rows-1)
	}
	return "\r"
}

var errNoLatency = errors.New("a window's latencies cannot be read")
