package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/autoscale"
	"loadstone/lab/driver"
	"loadstone/lab/fault"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

// replicas is a system whose instances take a while to start and to stop.
type replicas struct {
	fault.System
	takes time.Duration

	mu      sync.Mutex
	began   time.Time
	running map[string]bool
	acts    []string
	cpu     map[string]time.Duration
}

func (r *replicas) act(ctx context.Context, what, name string, running bool) error {
	r.mu.Lock()
	r.acts = append(r.acts, fmt.Sprintf("%v %s %s", time.Since(r.began), what, name))
	if r.running[name] == running {
		r.mu.Unlock()
		return fmt.Errorf("%s is there already, or is not", name)
	}
	r.mu.Unlock()
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[name] = running
	return nil
}

func (r *replicas) Start(ctx context.Context, name string) (time.Time, error) {
	if err := r.act(ctx, "start", name, true); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

func (r *replicas) Stop(ctx context.Context, name string) error {
	return r.act(ctx, "stop", name, false)
}

// work has those that run use a share of a CPU each, and be sampled.
func (r *replicas) work(ctx context.Context, seen *usage, share func() float64) {
	const every = 100 * time.Millisecond
	for ctx.Err() == nil {
		r.mu.Lock()
		s := &host.Sample{At: time.Now()}
		for name, running := range r.running {
			if running {
				r.cpu[name] += time.Duration(share() * float64(every))
			}
			s.Instances = append(s.Instances, host.Instance{Name: name, CPU: r.cpu[name]})
		}
		r.mu.Unlock()
		seen.add(s)
		time.Sleep(every)
	}
}

// remote is a system whose instances are where nothing of them is seen.
type remote struct{ driver.Running }

func (remote) Hosts() []host.Host { return nil }

// Replicas whose CPU is not seen would stay as many as they are, for no reason that anybody is told.
func TestWhatIsNotSeenIsNotScaled(t *testing.T) {
	t.Parallel()
	system := &topology.System{Services: []topology.Service{{Name: "api", Autoscale: &autoscale.Policy{MinReplicas: 1, MaxReplicas: 2}}}}
	m := &trialRun{execution: &execution{systems: map[string]*topology.System{"one": system}}, up: remote{}, trial: &archive.Trial{Planned: archive.Planned{Variant: "one"}}}
	_, _, err := m.whileScaled(func(context.Context) (*load.Result, []threshold.Outcome, error) {
		t.Error("load is offered")
		return nil, nil, nil
	})(t.Context())
	partly := *m
	partly.up, partly.trial = &watched{}, &archive.Trial{Planned: m.trial.Planned, Instances: []topology.Instance{{Service: "api", Name: "api-1"}, {Service: "api", Name: "api-2", Unseen: true}}}
	if _, _, other := partly.whileScaled(nil)(t.Context()); other == nil || err == nil || other.Error() != err.Error() {
		t.Errorf("one of two replicas is unseen: got %v, want %v", other, err)
	}
	if want := "x-autoscale of api follows what its instances use of their CPU, which is not seen from here; run loadstone on the machine that they are on"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestReplicasFollowTheirUtilisation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy, err := autoscale.Read(map[string]any{
			"minReplicas": 1, "maxReplicas": 4, "syncPeriodSeconds": 10,
			"metrics":  []any{map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": 50}}}},
			"behavior": map[string]any{"scaleDown": map[string]any{"stabilizationWindowSeconds": 0}},
		})
		if err != nil {
			t.Fatal(err)
		}
		share := 0.2 // of a CPU, of which each may use a fifth
		system := &replicas{takes: 3 * time.Second, began: time.Now(), running: map[string]bool{}, cpu: map[string]time.Duration{}}
		var seen usage
		var lines []archive.Scaling
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &scaled{
			service: &topology.Service{Name: "api", Limits: topology.Limits{CPUs: new(0.2)}}, policy: policy, scaler: autoscale.NewScaler(policy),
			system: system, seen: &seen, doing: func(string, ...any) {}, failed: func(err error) { cancel(err) },
			write: func(line any) error { lines = append(lines, line.(archive.Scaling)); return nil },
		}
		for i := range 4 {
			name := fmt.Sprintf("api-%d", i+1)
			system.running[name] = true
			s.replicas = append(s.replicas, &replica{name: name, state: replicaReady, readyAt: time.Now()})
		}
		var all sync.WaitGroup
		working, stop := context.WithCancel(ctx)
		all.Go(func() {
			system.work(working, &seen, func() float64 { return share })
		})
		if err := s.begin(ctx); err != nil {
			t.Fatal(err)
		}
		following, over := context.WithCancel(ctx)
		all.Go(func() { s.follow(following) })
		time.Sleep(31 * time.Second)
		system.mu.Lock()
		share = 0.02
		system.mu.Unlock()
		time.Sleep(20 * time.Second)
		over()
		stop()
		all.Wait()
		if err := s.end(); err != nil || context.Cause(ctx) != nil {
			t.Fatal(err, context.Cause(ctx))
		}
		var desired []int
		for _, l := range lines[:len(lines)-1] {
			desired = append(desired, l.Desired)
		}
		// Twice as busy as wanted, two are; while the second starts no more are wanted; and both
		// are as busy, so two more are. Then all are nearly idle.
		if want := []int{2, 2, 4, 1, 1}; !slices.Equal(desired, want) {
			t.Errorf("desired %v, want %v: %+v", desired, want, lines)
		}
		slices.Sort(system.acts)
		want := "0s stop api-2, 0s stop api-3, 0s stop api-4, 13s start api-2, 33s start api-3, 33s start api-4, 43s stop api-2, 43s stop api-3, 43s stop api-4"
		if got := strings.Join(system.acts, ", "); got != want {
			t.Errorf("%v, want %s", got, want)
		}
		for name, running := range system.running {
			if running != (name == "api-1") {
				t.Errorf("%s runs: %v", name, running)
			}
		}
		if n := len(lines[len(lines)-1].Instances); n != 6 {
			t.Errorf("%d stops were kept, want 6: %+v", n, lines[len(lines)-1])
		}
	})
}
