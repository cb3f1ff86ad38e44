package runner

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/topology"
)

func TestWhatIsAskedInItsOwnProtocol(t *testing.T) {
	t.Parallel()
	system := &topology.System{Services: []topology.Service{
		{Name: "log", Image: "apache/kafka:4.1"},
		{Name: "first", Image: "apache/kafka", Environment: map[string]string{"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@first:9093,2@second:9093"}},
		{Name: "second", Image: "apache/kafka", Environment: map[string]string{"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@first:9093,2@second:9093"}},
		{Name: "controller", Image: "apache/kafka", Environment: map[string]string{"KAFKA_PROCESS_ROLES": "controller"}},
		{Name: "own", Image: "apache/kafka", Command: []string{"/bin/true"}},
		{Name: "store", Image: "cassandra"},
		{Name: "other", Image: "redis"},
		{Name: "none", Image: "cassandra"},
		{Name: "workers", Image: "flink:2.3", Arguments: []string{"taskmanager"}},
		{Name: "manager", Image: "flink:2.3", Arguments: []string{"jobmanager"}},
		{Name: "job", Image: "flink:2.3", Arguments: []string{"flink", "run"}},
	}}
	var instances []topology.Instance
	for _, name := range []string{"log-1", "log-2", "first-1", "second-1", "controller-1", "own-1", "store-1", "store-2", "other-1", "workers-1", "workers-2", "manager-1", "job-1"} {
		service, _, _ := strings.Cut(name, "-")
		instances = append(instances, topology.Instance{Service: service, Name: name, Host: "127.0.0.1", Port: 1})
	}
	for _, manager := range []string{"jobmanager", "standalone-job"} {
		system.Services[9].Arguments = []string{manager}
		all, err := sources(system, func() []topology.Instance { return instances })
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range probed(all) {
			of := s.Instance
			if s.Whole {
				of += " for all"
			}
			got = append(got, of)
		}
		closeAll(all)
		if want := []string{"log-1 for all", "first-1 for all", "store-1", "store-2", "workers-1 for all"}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q: a cluster of brokers once, each node, and all task managers once", manager, got, want)
		}
	}
}

// assigned is a reader of a log, in which these queues are of groups that give partitions to themselves.
type assigned struct {
	told

	queues []string
}

func (a assigned) SelfAssigned(resource string) bool { return slices.Contains(a.queues, resource) }

func TestAQueueOfWhichAStageTellsIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lag    string
		queues []string // that nobody is a member for
		want   []string
	}{
		"the stage tells what waits":     {"pending", []string{"orders/analysis"}, []string{"orders/kitchen"}},
		"the stage does not tell it":     {"", []string{"orders/analysis"}, []string{"orders/kitchen", "orders/analysis"}},
		"it is not known which is whose": {"pending", []string{"orders/analysis", "orders/kitchen"}, []string{"orders/kitchen", "orders/analysis"}},
	} {
		trial := archive.Trial{Instances: []topology.Instance{{Service: "log", Name: "log-1"}, {Service: "workers", Name: "workers-1"}}}
		addResources([]*source{
			{reader: assigned{told{resources: []topology.Resource{{Name: "orders/kitchen", Kind: topology.Queue}, {Name: "orders/analysis", Kind: topology.Queue}}}, c.queues}, service: "log"},
			{reader: told{resources: []topology.Resource{{Name: "judge", Kind: topology.Stage, Lag: c.lag}}}, service: "workers"},
		}, &trial)
		var got []string
		for _, r := range trial.Instances[0].Resources {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, c.want) || len(trial.Instances[1].Resources) != 1 {
			t.Errorf("%s: the log has %q, want %q, and the workers %+v", name, got, c.want, trial.Instances[1].Resources)
		}
	}
}

// listenTwice listens at one port of two addresses, and tells of each connection to them. It says nothing to who connects.
func listenTwice(t *testing.T) (port int, connected map[string]chan struct{}) {
	t.Helper()
	for range 100 {
		connected = map[string]chan struct{}{}
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port = first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			_ = first.Close() // another port
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []net.Listener{first, second} {
			t.Cleanup(func() { _ = l.Close() })
			told := make(chan struct{}, 1)
			connected[l.Addr().(*net.TCPAddr).IP.String()] = told
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = c.Close() // it has nothing to say
					select {
					case told <- struct{}{}:
					default:
					}
				}
			}()
		}
		return port, connected
	}
	t.Fatal("no port is free at two addresses")
	return 0, nil
}

// What comes back at another address is asked there.
func TestWhatIsAskedIsWhereItIsNow(t *testing.T) {
	t.Parallel()
	for image, services := range map[string][]topology.Service{
		"apache/kafka": {{Name: "one"}},
		"cassandra":    {{Name: "one"}},
		"flink":        {{Name: "one", Arguments: []string{"jobmanager"}}, {Name: "workers", Arguments: []string{"taskmanager"}}},
	} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			port, connected := listenTwice(t)
			var host atomic.Value // of one-1
			host.Store("127.0.0.1")
			for i := range services {
				services[i].Image, services[i].Port = image, port
			}
			all, err := sources(&topology.System{Services: services}, func() []topology.Instance {
				return []topology.Instance{{Service: "one", Name: "one-1", Host: host.Load().(string)}, {Service: "workers", Name: "workers-1", Host: "127.0.0.3"}}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(all)
			read := func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got, err := all[0].ask(ctx); err == nil {
					t.Fatalf("got %v of who says nothing", got)
				}
			}
			for _, at := range []string{"127.0.0.1", "127.0.0.2"} {
				host.Store("")
				read()
				host.Store(at)
				deadline := time.Now().Add(time.Minute)
				for there := false; !there; {
					read()
					select {
					case <-connected[at]:
						there = true
					default:
						if time.Now().After(deadline) {
							t.Fatalf("nobody asks at %s", at)
						}
					}
				}
			}
		})
	}
}

// told is a reader that found resources or fails.
type told struct {
	resources []topology.Resource
	err       error
}

func (f told) Read(context.Context) (map[string]float64, error) {
	if f.err != nil {
		return nil, f.err
	}
	return map[string]float64{"x": 1}, nil
}
func (f told) Resources() []topology.Resource { return f.resources }
func (f told) Close()                         {}

func TestWhatWasFoundIsOfTheTrial(t *testing.T) {
	t.Parallel()
	declared := topology.Resource{Name: "orders/kitchen", Kind: topology.Queue, Depth: "kafka_group_lag", Consumer: "api"}
	found := topology.Resource{Name: "orders/kitchen", Kind: topology.Queue, Depth: "lag"}
	more := topology.Resource{Name: "bills/office", Kind: topology.Queue, Depth: "lag2"}
	shared := []topology.Resource{declared}
	trial := archive.Trial{Instances: []topology.Instance{
		{Service: "log", Name: "log-1", Resources: shared},
		{Service: "log", Name: "log-2", Resources: shared},
		{Service: "api", Name: "api-1"},
	}}
	works := &source{reader: told{resources: []topology.Resource{more, found}}, service: "log", instance: "log-1"}
	fails := &source{reader: told{err: errors.New("refused")}, service: "store", instance: "store-1"}
	for _, s := range []*source{works, fails} {
		_, err := s.ask(t.Context())
		if (err != nil) != (s == fails) {
			t.Fatal(err)
		}
	}
	addResources([]*source{works, fails}, &trial)
	for i, in := range trial.Instances[:2] {
		if len(in.Resources) != 2 || in.Resources[0] != declared || in.Resources[1] != more {
			t.Errorf("instance %d: got %+v, want what is declared, and what was found under another name", i, in.Resources)
		}
	}
	if len(trial.Instances[2].Resources) > 0 {
		t.Errorf("got %+v for another service", trial.Instances[2].Resources)
	}
	if want := "what store-1 knows of its queues and pools was never read: refused"; len(trial.Warnings) != 1 || trial.Warnings[0] != want {
		t.Errorf("got warnings %q, want %q", trial.Warnings, want)
	}
}
