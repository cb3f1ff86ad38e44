package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Component is one part of a process.
type Component struct {
	// Name says in errors which part is meant.
	Name string
	// Run does the work until ctx ends, then stops and returns. To return
	// before ctx ends is to fail, whatever it returns. Nil for a part that
	// only has to be closed.
	Run func(ctx context.Context) error
	// Close frees what Run used. It is called once, after Run has returned
	// (or has missed its time to stop). Nil if there is nothing to free.
	Close func() error
	// Ready reports whether the part can do its share of a request now. It must be
	// fast. Nil if it always can.
	Ready func() bool
}

// Group is a set of components. They start in the order in which they were
// added and stop in the reverse order, one after the other, so that each may
// rely until its own end on all that were added before it.
//
// It is not a supervisor: nothing is restarted, and when one component ends, all the
// others are stopped. The group owns the goroutines of its components and waits for
// them. A Group is used by one goroutine and runs once.
type Group struct {
	stopTimeout time.Duration
	components  []Component
}

var (
	// ErrEnded is why the group stopped when a component returned nil unasked.
	ErrEnded = errors.New("ended before it was told to")
	// ErrStuck is reported for a component that did not stop in time.
	ErrStuck = errors.New("did not stop in time")
)

// NewGroup returns an empty group. stopTimeout is how long the group waits for each
// component to return once its context has ended. Components bound their own
// stopping; this is the net below them, so it should be the longer of the two.
func NewGroup(stopTimeout time.Duration) *Group { return &Group{stopTimeout: stopTimeout} }

// Add appends a component.
func (g *Group) Add(c Component) { g.components = append(g.components, c) }

// started is a component at work.
type started struct {
	Component
	stop context.CancelFunc
	done chan struct{}
	err  error // valid after done is closed
}

// Run starts all components and waits until ctx ends or one of them returns.
// Then it stops them all. It returns nil if ctx ended and everything stopped
// cleanly. Otherwise it returns all errors, joined, the reason for stopping
// first. Every Close runs, whatever happened before it.
func (g *Group) Run(ctx context.Context) error {
	// Room for every component: none waits to report that it ended.
	ended := make(chan *started, len(g.components))
	all := make([]*started, 0, len(g.components))
	for _, c := range g.components {
		all = append(all, start(ctx, c, ended))
	}

	var errs []error
	var first *started
	select {
	case <-ctx.Done():
	case first = <-ended:
		errs = append(errs, fmt.Errorf("%s: %w", first.Name, cmp.Or(first.err, ErrEnded)))
	}

	for _, s := range slices.Backward(all) {
		s.stop()
		if err := s.wait(g.stopTimeout); err != nil && s != first {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.Name, err))
		}
		if err := s.close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close closes all components without running them, in the order of stopping.
// It is for a caller whose wiring failed half way.
func (g *Group) Close() error {
	var errs []error
	for _, c := range slices.Backward(g.components) {
		if err := c.close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// start runs c under a context of its own. The context keeps the values of
// ctx and not its end: all would stop at once otherwise.
func start(ctx context.Context, c Component, ended chan<- *started) *started {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &started{Component: c, stop: stop, done: make(chan struct{})}
	if c.Run == nil {
		close(s.done)
		return s
	}
	go func() {
		s.err = c.Run(own)
		close(s.done)
		ended <- s
	}()
	return s
}

func (s *started) wait(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.err
	case <-timer.C:
		return fmt.Errorf("%w (%v)", ErrStuck, limit)
	}
}

func (c Component) close() error {
	if c.Close == nil {
		return nil
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("close %s: %w", c.Name, err)
	}
	return nil
}
