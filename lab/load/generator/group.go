package generator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/load"
)

const (
	// clockRounds is how often a generator's clock is asked; the fastest answer counts.
	clockRounds = 8
	// firstIn and nextIn are how long after a plan is sent its load begins, everywhere at once: time
	// enough to receive it and to prepare, the first time by programs that have just been started, on
	// machines that may be busy. One generator alone begins when it is ready.
	firstIn, nextIn = 5 * time.Second, time.Second
	// sameSecond is how far apart the windows of generators may begin that are the same
	// second: much more than clocks are uncertain by, and less than a window.
	sameSecond = 100 * time.Millisecond
)

// Group is several generators that offer a plan together: each its Portion of the same
// schedule, on one clock. It is not safe for concurrent use.
type Group struct {
	members          []*member
	startsIn, nextIn time.Duration // of the next plan, and of those after it
}

// member is one generator of a group.
type member struct {
	*Process

	// ahead is by how much its clock is ahead of ours, to within uncertain.
	ahead, uncertain time.Duration
}

// Command is how a generator is started, and what it is called.
type Command struct {
	Name string
	Argv []string
}

// StartGroup starts generators and compares their clocks with this one's.
func StartGroup(ctx context.Context, commands []Command, log io.Writer) (*Group, error) {
	g := &Group{startsIn: firstIn, nextIn: nextIn}
	for _, c := range commands {
		p, err := Start(ctx, c.Argv, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("generator %s: %w", c.Name, err), g.Close())
		}
		p.Name = c.Name
		g.add(p)
	}
	return g.begin(ctx)
}

// Join makes a group of generators that run, and compares their clocks with this one's.
func Join(ctx context.Context, links []Link) (*Group, error) {
	g := &Group{startsIn: firstIn, nextIn: nextIn}
	for _, l := range links {
		g.add(overLink(l))
	}
	return g.begin(ctx)
}

// add takes a generator into the group, which may be elsewhere.
func (g *Group) add(p *Process) {
	p.beat, p.patience = beatEvery, silentFor
	g.members = append(g.members, &member{Process: p})
}

// begin compares the clocks, or ends all.
func (g *Group) begin(ctx context.Context) (*Group, error) {
	for _, m := range g.members {
		if err := m.compareClocks(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("generator %s: compare clocks: %w", m.Name, err), g.Close())
		}
	}
	return g, nil
}

// compareClocks takes the fastest of several answers: the clock was read between the
// question and the answer, so half of that time is what it is uncertain by.
func (m *member) compareClocks(ctx context.Context) error {
	for i := range clockRounds {
		asked := time.Now()
		there, err := m.now(ctx)
		if err != nil {
			return err
		}
		if half := time.Since(asked) / 2; i == 0 || half < m.uncertain {
			m.ahead, m.uncertain = there.Sub(asked.Add(half)), half
		}
	}
	return nil
}

// Clocks says how far ahead the clock of each generator is, and how exactly that is known.
func (g *Group) Clocks() []string {
	var all []string
	for _, m := range g.members {
		all = append(all, fmt.Sprintf("the clock of generator %s is ahead by %v (±%v), which is taken off its times", m.Name, m.ahead.Round(time.Microsecond), m.uncertain.Round(time.Microsecond)))
	}
	return all
}

// Run has the generators carry out plan together, as Process.Run does alone. Windows are
// merged second by second. If one ends the load before its time, the others end it with
// their next second.
func (g *Group) Run(ctx context.Context, plan load.Plan, onWindow func(load.Window) (stop string)) (load.Result, error) {
	if onWindow == nil {
		onWindow = func(load.Window) string { return "" }
	}
	members := g.sharers(&plan)
	at := time.Now().Add(g.startsIn)
	g.startsIn = g.nextIn
	seconds := &seconds{waiting: make([][]load.Window, len(members)), ended: make([]bool, len(members)), onWindow: onWindow}
	results := make([]load.Result, len(members))
	all, ctx := errgroup.WithContext(ctx)
	for i, m := range members {
		part := plan
		if len(members) > 1 {
			part.Portion, part.StartAt = load.Portion{Index: i, Of: len(members)}, at.Add(m.ahead)
		}
		all.Go(func() error {
			defer seconds.end(i)
			r, err := m.Run(ctx, part, func(w load.Window) string {
				w.Start = w.Start.Add(-m.ahead)
				return seconds.add(i, w)
			})
			if err != nil {
				return fmt.Errorf("generator %s: %w", m.Name, err)
			}
			if r.Aborted != "" {
				seconds.stop(r.Aborted)
			}
			r.From, r.To = r.From.Add(-m.ahead), r.To.Add(-m.ahead)
			results[i] = r
			return nil
		})
	}
	if err := errors.Join(all.Wait(), seconds.err); err != nil {
		return load.Result{}, err
	}
	return load.Merge(results)
}

// sharers are the generators among which there is something to share: no more than a
// scenario has virtual users.
func (g *Group) sharers(plan *load.Plan) []*member {
	n := len(g.members)
	for i := range plan.Scenarios {
		n = min(n, max(1, plan.Scenarios[i].PeakVUs()))
	}
	return g.members[:n]
}

// Close ends all generators.
func (g *Group) Close() error {
	var errs []error
	for _, m := range g.members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// seconds merges windows of several generators. A second is merged when every generator
// that has not ended has told of it or of a later one.
type seconds struct {
	onWindow func(load.Window) string

	mu      sync.Mutex
	waiting [][]load.Window
	ended   []bool
	why     string // to stop
	err     error
}

// add takes a window, and returns why the load is to end, if it is.
func (s *seconds) add(i int, w load.Window) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[i] = append(s.waiting[i], w)
	s.merge()
	return s.why
}

// end says that there are no more windows of a generator.
func (s *seconds) end(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[i] = true
	s.merge()
}

func (s *seconds) stop(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
}

// merge hands out all seconds that are complete. It holds mu.
func (s *seconds) merge() {
	for {
		var first time.Time
		for i, all := range s.waiting {
			switch {
			case len(all) == 0 && !s.ended[i]:
				return
			case len(all) > 0 && (first.IsZero() || all[0].Start.Before(first)):
				first = all[0].Start
			}
		}
		if first.IsZero() {
			return
		}
		var same []load.Window
		for i, all := range s.waiting {
			if len(all) > 0 && all[0].Start.Sub(first) < sameSecond {
				same, s.waiting[i] = append(same, all[0]), all[1:]
			}
		}
		w, err := load.MergeWindows(same)
		s.err = errors.Join(s.err, err)
		if why := s.onWindow(w); why != "" {
			s.why = why
		}
	}
}
