package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// countBar shows how many of a number of things are done: a bar on a terminal,
// elsewhere a plain line every few seconds. Nothing is shown of work that is
// over in less than that.
type countBar struct {
	w    io.Writer
	noun string
	last time.Time
	bars *mpb.Progress // nil if w is no terminal
	bar  *mpb.Bar
}

const (
	showAfter = time.Second
	lineEvery = 5 * time.Second
)

func newCountBar(w io.Writer, terminal bool, noun string) *countBar {
	b := &countBar{w: w, noun: noun, last: time.Now()}
	if terminal {
		b.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	}
	return b
}

// set tells how far the work is. It is called by one goroutine.
func (b *countBar) set(done, total int64) {
	if b.bars == nil {
		if now := time.Now(); now.Sub(b.last) >= lineEvery {
			b.last = now
			fmt.Fprintf(b.w, "%d of %d %s\n", done, total, b.noun)
		}
		return
	}
	if b.bar == nil {
		if time.Since(b.last) < showAfter {
			return
		}
		b.bar = b.bars.AddBar(total,
			mpb.PrependDecorators(decor.CountersNoUnit("%d / %d "+b.noun)),
			mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)))
	}
	b.bar.SetCurrent(done)
}

// close ends the drawing.
func (b *countBar) close() { endBars(b.bars, b.bar) }

// endBars ends the drawing of a bar, if there is one.
func endBars(bars *mpb.Progress, bar *mpb.Bar) {
	if bars == nil {
		return
	}
	if bar != nil && !bar.Completed() {
		bar.Abort(true)
	}
	bars.Wait()
}
