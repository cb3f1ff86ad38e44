package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// System is what faults are done to. Each call returns when it is done.
type System interface {
	Kill(ctx context.Context, instance string) error
	Stop(ctx context.Context, instance string) error
	Pause(ctx context.Context, instance string) error
	Resume(ctx context.Context, instance string) error
	// Start returns when the instance is ready; launched is when its process
	// began, and is there if only the wait was cut short by ctx.
	Start(ctx context.Context, instance string) (launched time.Time, err error)
	Exec(ctx context.Context, instance string, command []string, within time.Duration) (said string, err error)
}

// Config is what to carry out, and where to keep the records.
type Config struct {
	System System
	Faults []Fault // by rising At, none beginning before the one before it ends
	// Write keeps the record of a fault, once it is over or the load is.
	Write func(Event) error
	// Doing is told what is done, as it begins.
	Doing func(what string)
}

// mostLate is how much later than its time a fault may begin. It is late if an
// instance took long to be ready after the fault before it: then what is
// measured is not what was planned.
const mostLate = time.Second

// errOver is why a wait ended early: the load is over.
var errOver = errors.New("the load is over")

// Carry carries out faults once the time at which the load began is known, until
// over is closed. It returns how many were begun. An instance that is not back
// when the load is over is no error; a fault that could not be done is an
// *Error, as is one that began late.
func Carry(ctx context.Context, c Config, began <-chan time.Time, over <-chan struct{}) (begun int, err error) {
	r := &runner{Config: c, over: over}
	select {
	case r.began = <-began:
	case <-over:
		return 0, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for i, f := range c.Faults {
		due := r.began.Add(f.At)
		if on, err := r.sleep(ctx, due); !on {
			return begun, err
		}
		fail := func(err error) (int, error) { return begun, &Error{Number: i + 1, What: f.String(), Err: err} }
		if late := time.Since(due); late > mostLate {
			return fail(fmt.Errorf("it was due %v after the load began and could begin %.1f s later only, when the fault before it was over; leave more time between them", f.At, late.Seconds()))
		}
		begun++
		e := Event{Number: i + 1, What: f.String(), Action: f.Action, Planned: f.At.Seconds()}
		err := r.carry(ctx, f, &e)
		if err := errors.Join(err, c.Write(e)); err != nil {
			return fail(err)
		}
	}
	return begun, nil
}

type runner struct {
	Config
	began time.Time
	over  <-chan struct{}
}

// sleep waits for a moment. on is false if the load is over before it, or ctx.
func (r *runner) sleep(ctx context.Context, until time.Time) (on bool, err error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-r.over:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// carry carries out one fault.
func (r *runner) carry(ctx context.Context, f Fault, e *Event) error {
	r.Doing(e.What)
	e.Asked = time.Now()
	if f.Action == Exec {
		var err error
		e.Said, err = r.System.Exec(ctx, f.Targets[0], f.Command, f.Within)
		e.Done = time.Now()
		if err != nil && e.Said != "" {
			err = fmt.Errorf("%w; it said: %s", err, e.Said)
		}
		return err
	}
	e.Instances = make([]Affected, len(f.Targets))
	end := map[string]func(context.Context, string) error{Kill: r.System.Kill, Stop: r.System.Stop, Pause: r.System.Pause}[f.Action]
	err := each(f, e, func(in *Affected) error {
		err := end(ctx, in.Name)
		in.Done = time.Now()
		return err
	})
	e.Done = time.Now()
	if err != nil || !f.Ends {
		return err
	}
	if on, err := r.sleep(ctx, e.Asked.Add(f.For)); !on {
		return err
	}
	return r.undo(ctx, f, e)
}

// undo has the instances come back. That the load is over before they are ready
// is no error.
func (r *runner) undo(ctx context.Context, f Fault, e *Event) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel(nil)
	waiting.Go(func() {
		select {
		case <-r.over:
			cancel(errOver)
		case <-ctx.Done():
		}
	})
	return each(f, e, func(in *Affected) error {
		in.Undone = time.Now()
		var err error
		if f.Action == Pause {
			err = r.System.Resume(ctx, in.Name)
		} else {
			in.Launched, err = r.System.Start(ctx, in.Name)
		}
		switch {
		case errors.Is(err, errOver):
			return nil
		case err != nil:
			return err
		}
		in.Ready = time.Now()
		return nil
	})
}

// each does something to all instances of a fault at once.
func each(f Fault, e *Event, do func(*Affected) error) error {
	var g errgroup.Group // without a context: what is begun is carried out
	for i, name := range f.Targets {
		e.Instances[i].Name = name
		g.Go(func() error { return do(&e.Instances[i]) })
	}
	return g.Wait()
}
