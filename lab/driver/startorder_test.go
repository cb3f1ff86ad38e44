package driver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) at(line string) int { return slices.Index(j.lines, line) }

// instance takes a second to be ready.
func (j *journal) instance(name string, failure error) driver.Steps {
	return driver.Steps{
		Start: func(context.Context) error { j.write("start " + name); return nil },
		Ready: func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				j.write("ready " + name)
				return failure
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		Stop: func(context.Context) error {
			time.Sleep(time.Second)
			j.write("stop " + name)
			return failure
		},
	}
}

// system is a job, a store that is healthy late, and a front of two instances.
func (j *journal) system(failure error) *driver.Order {
	var o driver.Order
	o.Add(topology.Service{Name: "store"}, []driver.Steps{j.instance("store", nil)})
	o.Add(topology.Service{Name: "seed", Job: true, DependsOn: []topology.Dependency{{Service: "store", Condition: topology.Healthy}}},
		[]driver.Steps{j.instance("seed", failure)})
	o.Add(topology.Service{Name: "front", DependsOn: []topology.Dependency{
		{Service: "seed", Condition: topology.Completed}, {Service: "side", Condition: topology.Started},
	}}, []driver.Steps{j.instance("front-1", nil), j.instance("front-2", nil)})
	o.Add(topology.Service{Name: "side"}, []driver.Steps{j.instance("side", nil)})
	return &o
}

func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		o := j.system(nil)
		progress := topology.Progress{
			Starting: func(s string) { j.write("starting " + s) }, Ready: func(s string) { j.write("service ready " + s) },
		}
		if err := o.Start(t.Context(), progress); err != nil {
			t.Fatal(err)
		}
		if err := o.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]string{
			{"ready store", "starting seed"}, {"starting seed", "start seed"}, {"ready seed", "start front-1"}, {"start front-1", "start front-2"},
			{"start side", "start front-1"}, {"ready front-2", "service ready front"}, {"stop front-2", "stop seed"},
			{"stop front-1", "stop side"}, {"stop seed", "stop store"},
		} {
			if before, after := j.at(pair[0]), j.at(pair[1]); before < 0 || after < before {
				t.Errorf("%q is not before %q in %q", pair[0], pair[1], j.lines)
			}
		}
	})
}

func TestFailureEndsTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		broken := errors.New("broken")
		o := j.system(broken)
		if err := o.Start(t.Context(), topology.Progress{}); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		if j.at("start front-1") >= 0 {
			t.Errorf("what depends on a job that failed was started: %q", j.lines)
		}
		if err := o.Stop(t.Context()); !errors.Is(err, broken) || j.at("stop store") < 0 {
			t.Errorf("got %v and %q, want the failure and everything stopped", err, j.lines)
		}
	})
}

func TestActs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		acts := driver.NewActs(ctx)
		cancel() // what brought the system up is over
		act, done, err := acts.Begin(t.Context())
		if err != nil || act.Err() != nil || acts.Over() {
			t.Fatalf("got %v, %v, over %v", err, act.Err(), acts.Over())
		}
		go func() {
			<-act.Done()
			time.Sleep(time.Second) // what it takes to leave things whole
			done()
		}()
		began := time.Now()
		acts.End()
		if took := time.Since(began); took != time.Second || !acts.Over() {
			t.Errorf("End took %v, want what the act took", took)
		}
		if cause := context.Cause(act); cause == nil || !strings.Contains(cause.Error(), "being stopped") {
			t.Errorf("the act was ended by %v", cause)
		}
		if _, _, err := acts.Begin(t.Context()); err == nil {
			t.Error("something began after the end")
		}
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := driver.Poll{Within: 10 * time.Second, First: time.Second, Last: 4 * time.Second}
		looks := 0
		began := time.Now()
		ok, err := p.Until(t.Context(), nil, func(context.Context) bool { looks++; return looks == 4 })
		if took := time.Since(began); !ok || err != nil || took != 7*time.Second {
			t.Errorf("got %v, %v after %v, want yes after 1+2+4 s", ok, err, took)
		}
		if ok, err := p.Until(t.Context(), nil, func(context.Context) bool { return false }); ok || err != nil {
			t.Errorf("never ready: got %v, %v", ok, err)
		}
		ended := make(chan struct{})
		close(ended)
		began = time.Now()
		if ok, err := p.Until(t.Context(), ended, func(context.Context) bool { return false }); ok || err != nil || time.Since(began) != 0 {
			t.Errorf("ended: got %v, %v after %v", ok, err, time.Since(began))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("no more")
		cancel(why)
		if _, err := p.Until(ctx, nil, func(context.Context) bool { return false }); !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
	})
}
