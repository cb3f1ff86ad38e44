package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"loadstone/lab/conduct"
	"loadstone/lab/run"
)

// progress shows a run while it runs: on a terminal one bar with what is being
// done and the time left, elsewhere a plain line per trial.
type progress struct {
	w    io.Writer
	bars *mpb.Progress // nil if w is no terminal
	bar  *mpb.Bar

	mu     sync.Mutex // the bar is drawn by mpb's own goroutine
	trials int
	now    run.Planned
	doing  string
	began  time.Time
	each   time.Duration
}

func newProgress(w io.Writer, terminal bool) *progress {
	p := &progress{w: w}
	if terminal {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(30), mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

func (p *progress) events() conduct.Events {
	return conduct.Events{
		Planned: p.planned, TrialStarted: p.trialStarted, Doing: p.setDoing,
		TrialEnded: p.trialEnded, Warning: p.warning,
	}
}

func (p *progress) planned(dir string, trials []run.Planned, each time.Duration) {
	p.trials, p.each, p.began = len(trials), each, time.Now()
	p.printf("run %s: %d trials, about %s\n", dir, len(trials), (time.Duration(len(trials)) * each).Round(10*time.Second))
	if p.bars == nil {
		return
	}
	p.bar = p.bars.AddBar(int64(len(trials)),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.position() })),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.left() + "  " + p.current() })),
	)
}

func (p *progress) position() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("trial %d/%d ", p.now.Index, p.trials)
}

// left is about how long the run still takes.
func (p *progress) left() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := max(p.now.Index-1, 0)
	each := p.each
	if done >= 2 { // the run's own pace, once it has one
		each = time.Since(p.began) / time.Duration(done+1)
	}
	return fmt.Sprintf("%s left", (time.Duration(p.trials-done) * each).Round(time.Second))
}

func (p *progress) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s: %s", p.now.Variant, p.doing)
}

func (p *progress) trialStarted(t run.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.doing = t, "starting"
}

func (p *progress) setDoing(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = what
}

func (p *progress) trialEnded(t run.Trial) {
	if p.bar != nil {
		p.bar.Increment()
	}
	p.printf("trial %d/%d  %-12s %s  (%.1f s)\n", t.Index, p.trials, t.Variant, outcome(t), t.Ended.Sub(t.Started).Seconds())
}

// outcome is a trial in a few words.
func outcome(t run.Trial) string {
	out, m := t.Conclude()
	tries := len(t.Measures) - 1 // the sweep is none
	switch {
	case m != nil && m.Kind == run.AsWritten && m.Held:
		return fmt.Sprintf("%.0f req/s, objectives met", m.Result.Throughput())
	case m != nil && m.Kind == run.AsWritten:
		return fmt.Sprintf("%.0f req/s, %s", m.Result.Throughput(), m.Reason)
	case out.Rate == 0:
		return fmt.Sprintf("no rate held in %d tries", tries)
	case out.LowerBound:
		return fmt.Sprintf("at least %.0f req/s in %d tries: %s", out.Rate, tries, out.Reason)
	}
	return fmt.Sprintf("%.0f req/s in %d tries", out.Rate, tries)
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
func (p *progress) close() {
	if p.bars == nil {
		return
	}
	if p.bar != nil && !p.bar.Completed() {
		p.bar.Abort(true)
	}
	p.bars.Wait()
}
