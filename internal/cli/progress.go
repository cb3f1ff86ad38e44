package cli

import (
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"loadstone/lab/archive"

	"loadstone/lab/format"
	"loadstone/lab/runner"
)

// progress shows a run while it runs: on a terminal one bar with what is being
// done and the time left, elsewhere a plain line per trial. The time left is told anew
// by what each trial really took.
type progress struct {
	w    io.Writer
	bars *mpb.Progress // nil if w is no terminal
	bar  *mpb.Bar

	mu    sync.Mutex // the bar is drawn by mpb's own goroutine
	pace  *pace
	now   archive.Planned
	doing string
	began time.Time // of the present trial
}

func newProgress(w io.Writer, terminal bool) *progress {
	p := &progress{w: w, pace: newPace(nil, nil)}
	if terminal {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(30), mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

func (p *progress) events() runner.Events {
	return runner.Events{
		Planned: p.planned, TrialStarted: p.trialStarted, Doing: p.setDoing,
		TrialEnded: p.trialEnded, Perturbing: p.perturbing, Warning: p.warning,
	}
}

func (p *progress) planned(dir string, trials []archive.Planned, load []time.Duration) {
	p.pace = newPace(trials, load)
	p.printf("run %s: %s\n", dir, beforehand(p.pace))
	if p.bars == nil {
		return
	}
	p.bar = p.bars.AddBar(int64(len(trials)),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.position() })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.left() + "  " + p.current() })),
	)
}

// beforehand says how long a run takes as far as that is known before it.
func beforehand(p *pace) string {
	count := fmt.Sprintf("%d trials", len(p.trials))
	if len(p.trials) == 1 {
		count = "1 trial"
	}
	if load, _ := p.left(0); load > 0 {
		return count + ", at least about " + format.Remaining(load) + ": starting, seeding, stopping and slow answers come on top"
	}
	return count + "; how long is not known before the first has ended"
}

func (p *progress) position() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("trial %d/%d ", p.now.Index, len(p.pace.trials))
}

// left is about how long the run still takes.
func (p *progress) left() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var present time.Duration
	if !p.began.IsZero() {
		present = time.Since(p.began)
	}
	return p.pace.leftText(present)
}

func (p *progress) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s: %s", p.now.Variant, p.doing)
}

func (p *progress) trialStarted(t archive.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.doing, p.began = t, "starting", time.Now()
}

func (p *progress) setDoing(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = what
}

// perturbing says, where no bar does, why the last trial of a variant takes longer than
// those before it.
func (p *progress) perturbing(most time.Duration) {
	if p.bars != nil {
		return
	}
	p.mu.Lock()
	line := fmt.Sprintf("trial %d/%d  %-12s its rate is found; now resources are changed under load, for up to %.0f s, to see what moves it",
		p.now.Index, len(p.pace.trials), p.now.Variant, most.Seconds())
	p.mu.Unlock()
	p.printf("%s\n", line)
}

func (p *progress) trialEnded(t archive.Trial) {
	if p.bar != nil {
		p.bar.Increment()
	}
	took := t.Ended.Sub(t.Started)
	p.mu.Lock()
	p.pace.end(t.Planned, took)
	p.began = time.Time{} // the next one has not begun
	line := fmt.Sprintf("trial %d/%d  %-12s %s  (%.1f s)", t.Index, len(p.pace.trials), t.Variant, outcome(t), took.Seconds())
	if p.pace.ended < len(p.pace.trials) {
		line += "  " + p.pace.leftText(0)
	}
	p.mu.Unlock()
	p.printf("%s\n", line) // without the lock, which the bar takes when it is drawn
}

// outcome is a trial in a few words, with numbers as the report writes them.
func outcome(t archive.Trial) string {
	out, m := t.Conclude()
	n, unit := 0, "req/s"
	for i := range t.Measures {
		if t.Measures[i].Kind != archive.Sweep {
			n++
		}
		unit = cmp.Or(t.Measures[i].Unit, unit)
	}
	tries := fmt.Sprintf("%d tries", n)
	if n == 1 {
		tries = "1 try"
	}
	switch {
	case m != nil && m.Kind == archive.AsWritten && m.Held:
		return format.Measured(m.Result.Throughput()) + " req/s, the load's objectives met"
	case m != nil && m.Kind == archive.AsWritten:
		return fmt.Sprintf("%s req/s, %s", format.Measured(m.Result.Throughput()), m.Reason)
	case out.Rate == 0:
		return "no rate held in " + tries
	case out.LowerBound:
		return fmt.Sprintf("at least %s %s in %s: %s", format.Measured(out.Rate), unit, tries, out.Reason)
	}
	return fmt.Sprintf("%s %s in %s", format.Measured(out.Rate), unit, tries)
}

func (p *progress) warning(text string) { p.printf("warning: %s\n", text) }

// printf prints above the bar.
func (p *progress) printf(format string, args ...any) {
	w := p.w
	if p.bars != nil {
		w = p.bars
	}
	fmt.Fprintf(w, format, args...)
}

// close ends the drawing; nothing may be shown after it.
func (p *progress) close() { endBars(p.bars, p.bar) }
