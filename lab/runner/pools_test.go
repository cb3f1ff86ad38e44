package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/selftest/plant"
	"loadstone/lab/topology"
)

// grow runs a plant until the test ends, and returns it as an instance.
func grow(t *testing.T, service string, edit func(*plant.Config)) (*plant.Service, topology.Instance) {
	t.Helper()
	c := plant.DefaultConfig()
	c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
	edit(&c)
	s, err := plant.Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run a plant: %v", err)
		}
	})
	return s, topology.Instance{Service: service, Name: service + "-1", MetricsURL: "http://" + s.AdminAddr().String() + "/metrics"}
}

func get(t *testing.T, s *plant.Service) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+s.Addr().String()+"/", http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_ = resp.Body.Close()
}

func callTo(t *testing.T, to net.Listener) []plant.Call {
	t.Helper()
	tcp, ok := to.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v is no TCP address", to.Addr())
	}
	return []plant.Call{{Hosts: tcp.IP.String(), Port: tcp.Port, Visits: 1}}
}

// inTime does something again as long as it fails for a deadline that was exceeded, which on
// a busy machine is no fault of who was asked.
func inTime(do func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := do()
		late := err != nil && (strings.Contains(err.Error(), "deadline exceeded") || strings.Contains(err.Error(), "i/o timeout"))
		if !late || time.Now().After(deadline) {
			return err
		}
	}
}

// findPools is pools, of instances that answer in time.
func findPools(t *testing.T, instances []topology.Instance, system *topology.System) (found []pool, warnings []string) {
	t.Helper()
	_ = inTime(func() error { // the warnings say it as well
		found, warnings = pools(t.Context(), instances, system)
		if len(warnings) > 0 {
			return errors.New(strings.Join(warnings, "; "))
		}
		return nil
	})
	return found, warnings
}

func TestPoolsOfAPlantAreFoundAndTurned(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	defer slow.Close()
	defer release()
	api, in := grow(t, "api", func(c *plant.Config) { c.Pool, c.Calls = &plant.Pool{Size: 4}, callTo(t, slow.Listener) })
	in.Resources = []topology.Resource{
		{Name: "connections", Kind: topology.Pool, Size: "plant_pool_size", InUse: "plant_pool_in_use", Control: &topology.Control{Put: "/pool", Value: "{n}"}},
		{Name: "fixed", Kind: topology.Pool, Size: "plant_pool_size", InUse: "plant_pool_in_use"},
		{Name: "gone", Kind: topology.Pool, Size: "no_such_size", InUse: "x", Control: &topology.Control{Put: "/pool", Value: "{n}"}},
	}
	stopped := in
	stopped.Service, stopped.Name = "job", "job-1"
	system := &topology.System{Services: []topology.Service{{Name: "api", Replicas: 1}, {Name: "job", Replicas: 1, Job: true}}}
	found, warnings := findPools(t, []topology.Instance{in, stopped}, system)
	if len(found) != 1 || found[0].at[0].Size != 4 || !strings.HasSuffix(found[0].at[0].URL, "/pool") {
		t.Fatalf("got %+v, want one pool of 4", found)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "the pool gone of api was not perturbed: api-1 tells no size") {
		t.Errorf("got warnings %q, want one about the pool that nobody tells of", warnings)
	}
	client := metricsClient()
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for asked := false; !asked; {
				get(t, api)
				select {
				case <-answer:
					asked = true
				default: // the plant has given the call up
				}
			}
		})
	}
	defer all.Wait()
	defer release()
	p := &found[0]
	until(t, "three slots are used", func() bool { return p.knob(t.Context(), client).Utilisation == 0.75 })
	k := p.knob(t.Context(), client)
	if got := k.String(); got != "api pool connections" {
		t.Errorf("the knob is of %q", got)
	}
	for factor, want := range map[float64]int{1.25: 5, 0.8: 3, 1: 4} {
		if err := inTime(func() error { return k.Set(t.Context(), factor) }); err != nil {
			t.Fatal(err)
		}
		now, _ := findPools(t, []topology.Instance{in}, system)
		if len(now) != 1 || now[0].at[0].Size != want {
			t.Errorf("turned to %g: got %+v, want %d slots", factor, now, want)
		}
	}
}

// The admin token of a service is that of its environment.
func TestPoolsAreTurnedWithTheirToken(t *testing.T) {
	t.Parallel()
	var size atomic.Int64
	size.Store(8)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "pool_size %d\npool_in_use 2\n", size.Load())
	})
	mux.HandleFunc("PUT /pool", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n, err := strconv.ParseInt(string(body), 10, 64)
		if err != nil || r.Header.Get("Authorization") != "Bearer a secret" {
			http.Error(w, "send the admin token", http.StatusUnauthorized)
			return
		}
		size.Store(n)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	turn := func(token string) error {
		t.Helper()
		in := topology.Instance{Service: "api", Name: "api-1", MetricsURL: server.URL + "/metrics"}
		in.Resources = []topology.Resource{{
			Name: "workers", Kind: topology.Pool, Size: "pool_size", InUse: "pool_in_use",
			Control: &topology.Control{Put: "/pool", Value: "{n}", Token: token},
		}}
		system := &topology.System{Services: []topology.Service{{Name: "api", Replicas: 1, Environment: map[string]string{"API_TOKEN": "a secret", "OTHER": "x"}}}}
		found, warnings := findPools(t, []topology.Instance{in}, system)
		if len(found) == 0 {
			return errors.New(strings.Join(warnings, "; "))
		}
		client := metricsClient()
		defer client.CloseIdleConnections()
		k := found[0].knob(t.Context(), client)
		return inTime(func() error { return k.Set(t.Context(), 1.25) })
	}
	for token, want := range map[string]string{
		"":        "status 401 (send the admin token)",
		"OTHER":   "status 401 (send the admin token)",
		"MISSING": "the pool workers of api was not perturbed: MISSING, which has its token, is not in the environment of the service",
	} {
		if err := turn(token); err == nil || !strings.Contains(err.Error(), want) || size.Load() != 8 {
			t.Errorf("token %q: got %v and %d slots, want %q", token, err, size.Load(), want)
		}
	}
	if err := turn("API_TOKEN"); err != nil || size.Load() != 10 {
		t.Errorf("got %v and %d slots, want 10", err, size.Load())
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// counted is an endpoint that counts how often it is asked; answer is told which time it is, from 1.
func counted(t *testing.T, answer func(w http.ResponseWriter, asked int64)) (in topology.Instance, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, asked.Add(1)) }))
	t.Cleanup(server.Close)
	return topology.Instance{Service: "intake", Name: "intake-1", MetricsURL: server.URL + "/metrics"}, asked
}

// settle waits for what is declared to be worked off, and for nothing else.
func TestSettleWaitsUntilQueuesAreEmpty(t *testing.T) {
	t.Parallel()
	const first = 3
	in, asked := counted(t, func(w http.ResponseWriter, asked int64) { // one less for each who asks
		fmt.Fprintf(w, "depth %d\n", max(0, first+1-asked))
	})
	settle(t.Context(), []topology.Instance{in})
	if n := asked.Load(); n != 0 {
		t.Fatalf("%d asked before anything was declared, want none", n)
	}
	in.Resources = []topology.Resource{{Name: "jobs", Kind: topology.Queue, Depth: "depth"}}
	for deadline := time.Now().Add(time.Minute); asked.Load() <= first; {
		began := time.Now()
		settle(t.Context(), []topology.Instance{in})
		// A scrape that takes a second ends the wait as well.
		if n, took := asked.Load(), time.Since(began); n <= first && took < stuckAfter {
			t.Fatalf("it ended after %v and %d of %d scrapes", took, n, first+1)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d scrapes within a minute, want %d", asked.Load(), first+1)
		}
	}
}

func TestSettleGivesUp(t *testing.T) {
	t.Parallel()
	stuck, looks := counted(t, func(w http.ResponseWriter, _ int64) { fmt.Fprintln(w, "lag 20") })
	fails, failures := counted(t, func(w http.ResponseWriter, _ int64) { w.WriteHeader(http.StatusServiceUnavailable) })
	stuck.Resources = []topology.Resource{{Name: "jobs", Kind: topology.Stage, Lag: "lag"}}
	fails.Resources = stuck.Resources
	settle(t.Context(), []topology.Instance{stuck})
	// The first, one that was due meanwhile, and those after it.
	if n := looks.Load(); n > int64(stuckAfter/settleEvery)+3 {
		t.Errorf("it looked %d times at what never falls, want %d at most", n, stuckAfter/settleEvery+3)
	}
	settle(t.Context(), []topology.Instance{fails})
	if n := failures.Load(); n > 1 {
		t.Errorf("it asked who fails %d times, want once", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	settle(ended, []topology.Instance{stuck})
}
