package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/driver"
	"loadstone/lab/experiment"
	"loadstone/lab/fault"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

// faultChecker is a driver that knows before the system is up which faults it cannot carry
// out.
type faultChecker interface {
	CheckFault(ctx context.Context, s *topology.System, f driver.Fault) error
}

// checkFaults checks the faults against a variant's system, before anything
// starts.
func (k *execution) checkFaults(ctx context.Context, variant string, s *topology.System) error {
	exp, instances := k.Experiment, running(s)
	if err := exp.CheckFaults(variant, instances); err != nil {
		return err
	}
	checker, ok := k.Driver.(faultChecker)
	if !ok {
		return nil // what it cannot do shows when the fault is carried out
	}
	var errs []error
	entry := entryFaults{name: exp.Entry, instances: instances[exp.Entry], ended: map[string]bool{}}
	for i := range exp.Faults {
		if err := checker.CheckFault(ctx, s, entry.with(&exp.Faults[i], instances)); err != nil {
			action, _ := exp.Faults[i].Action()
			errs = append(errs, exp.ErrorAt(err.Error(), "faults", fmt.Sprint(i), action))
		}
	}
	return errors.Join(errs...)
}

// entryFaults is what faults have done to the entry service so far.
type entryFaults struct {
	name      string
	instances int
	ended     map[string]bool // its instances that were killed or stopped
}

// with is a fault as a driver is asked about it, after those before.
func (e *entryFaults) with(f *experiment.Fault, instances map[string]int) driver.Fault {
	action, service := f.Action()
	asked := driver.Fault{Service: service, Action: action, Command: f.Exec}
	if service != e.name || action != fault.Kill && action != fault.Stop {
		return asked
	}
	plan := f.Plan(instances)
	for _, name := range plan.Targets {
		e.ended[name] = true
	}
	someRun := plan.Ends || len(plan.Targets) < e.instances // when the fault is over
	asked.Renewed = someRun && len(e.ended) == e.instances
	return asked
}

// running are the instances that each service has while load is offered: jobs
// have none.
func running(s *topology.System) map[string]int {
	instances := map[string]int{}
	for i := range s.Services {
		if !s.Services[i].Job {
			instances[s.Services[i].Name] = s.Services[i].Replicas
		}
	}
	return instances
}

type offerFunc = func(context.Context) (*load.Result, []threshold.Outcome, error)

// underFaults has the experiment's faults carried out while load is offered. A
// fault that could not be carried out ends the load.
func (m *trialRun) underFaults(offer offerFunc) offerFunc {
	return func(ctx context.Context) (_ *load.Result, _ []threshold.Outcome, err error) {
		system, ok := m.up.(fault.System)
		if !ok {
			return nil, nil, fmt.Errorf("the driver %s carries out no faults; take them out of the experiment, or use another driver", m.Driver.Name())
		}
		events, err := archive.CreateLines(m.dir, archive.EventsFile)
		if err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, events.Close()) }()
		began, over, done := make(chan time.Time, 1), make(chan struct{}), make(chan struct{})
		m.onFirst = func(at time.Time) { began <- at }
		defer func() { m.onFirst = nil }()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		var begun int
		var failed error
		go func() {
			defer close(done)
			begun, failed = fault.Carry(ctx, m.faultConfig(system, events), began, over)
			if failed != nil {
				fail(failed)
			}
		}()
		r, outcomes, err := offer(ctx)
		close(over)
		<-done
		if e, ok := errors.AsType[*fault.Error](failed); ok {
			return nil, nil, e // the load's error is only its consequence
		}
		if err = errors.Join(err, failed); err != nil {
			return nil, nil, err
		}
		return r, outcomes, m.allBegun(begun, r)
	}
}

func (m *trialRun) faultConfig(system fault.System, events *archive.Lines) fault.Config {
	instances := running(m.systems[m.trial.Variant])
	c := fault.Config{
		System: system, Write: func(e fault.Event) error { return events.Write(e) },
		Doing: func(what string) { m.Events.doingf("%s", what) },
	}
	for i := range m.Experiment.Faults {
		c.Faults = append(c.Faults, m.Experiment.Faults[i].Plan(instances))
	}
	return c
}

// allBegun says whether there was load for every fault. Load that an objective
// has ended is no error: that it did is the result.
func (m *trialRun) allBegun(begun int, r *load.Result) error {
	all := m.Experiment.Faults
	if begun == len(all) {
		return nil
	}
	text := fmt.Sprintf("the load ended after %.1f s, before fault %d at %v", r.To.Sub(r.From).Seconds()+m.base.Warmup.Seconds(), begun+1, all[begun].At)
	if r.Aborted != "" {
		m.trial.Warnings = append(m.trial.Warnings, text+", because "+r.Aborted)
		return nil
	}
	return m.Experiment.ErrorAt(text+"; write an earlier time, or a longer load", "faults", fmt.Sprint(begun), "at")
}

// withStart keeps windows as keep does, and tells of the beginning of the first.
func (m *trialRun) withStart(keep func(any) error) func(any) error {
	first := true
	return func(window any) error {
		if w, ok := window.(load.Window); ok && first {
			first = false
			m.onFirst(w.Start)
		}
		return keep(window)
	}
}
