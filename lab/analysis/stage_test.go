package analysis

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/selftest/plant"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// pipeline is a source, a middle and a sink of which each tells the same things.
func pipeline() []topology.Resource {
	stage := func(name, after string) topology.Resource {
		return topology.Resource{
			Name: name, Kind: topology.Stage, Done: name + "_done", BusySeconds: name + "_busy",
			BackpressuredSeconds: name + "_held", Lag: name + "_lag", After: after,
		}
	}
	return []topology.Resource{stage("source", ""), stage("middle", "api.source"), stage("sink", "api.middle")}
}

// work is what a stage says: shares of time, and by how much its lag grows.
type work struct{ busy, held, grows float64 }

// telling is what the stages say at 100 items a second.
func telling(stages map[string]work) func(s float64) map[string]float64 {
	return func(s float64) map[string]float64 {
		out := map[string]float64{}
		for name, w := range stages {
			out[name+"_done"], out[name+"_busy"], out[name+"_held"] = (100-w.grows)*s, w.busy*s, w.held*s
			out[name+"_lag"] = 3 + w.grows*s
		}
		return out
	}
}

func TestDeriveNamesTheStageThatLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stages map[string]work
		want   string
		bound  float64
	}{
		"the source is slow": {map[string]work{"source": {0.97, 0, 0}, "middle": {0.4, 0, 0}, "sink": {0.3, 0, 0}}, "source", 100 / 0.97},
		"the middle is slow": {map[string]work{"source": {0.3, 0.65, 0}, "middle": {0.98, 0, 0}, "sink": {0.3, 0, 0}}, "middle", 100 / 0.98},
		"the sink is slow":   {map[string]work{"source": {0.2, 0.7, 0}, "middle": {0.4, 0.55, 0}, "sink": {0.96, 0, 0}}, "sink", 100 / 0.96},
		// The source is nearly as slow, but waits to hand on.
		"both are busy": {map[string]work{"source": {0.88, 0.12, 0}, "middle": {0.97, 0, 0}, "sink": {0.3, 0, 0}}, "middle", 100 / 0.97},
		// A buffer without a bound: nobody is held back, and work piles up.
		"the sink falls behind": {map[string]work{"source": {0.88, 0, 0}, "middle": {0.4, 0, 0}, "sink": {0.99, 0, 15}}, "sink", 85 / 0.99},
		"none":                  {map[string]work{"source": {0.5, 0, 0}, "middle": {0.4, 0.05, 0}, "sink": {0.3, 0, 0}}, "", 0},
	} {
		p := idle(topology.Resource{}, telling(c.stages))
		p.resources = pipeline()
		one := derive(t, map[string]planted{"one": p, "two": p}).Variants[0]
		v := one.Verdict
		if c.want == "" {
			if v.Component != "" {
				t.Errorf("%s: got %+v, want nobody named", name, v)
			}
			continue
		}
		if v.Status != verdict.Named || v.Resource != "stage" || v.ResourceName != c.want || v.Agreement != "2/2" {
			t.Errorf("%s: got %s %s %s (%s): %+v", name, v.Status, v.Resource, v.ResourceName, v.Summary, v.Witnesses)
		}
		if r := found(one.Components[0], c.want); !near(r.Bound, c.bound, 0.02) {
			t.Errorf("%s: it is bounded at %.1f, want %.1f: %+v", name, r.Bound, c.bound, r)
		}
		if len(one.Warnings) > 0 {
			t.Errorf("%s: warnings %q", name, one.Warnings)
		}
	}
}

func found(c verdict.Component, name string) verdict.Resource {
	for _, r := range c.Resources {
		if r.Name == name {
			return r
		}
	}
	return verdict.Resource{}
}

// One worker of four gets most of the work: the stage is as slow as that one.
func TestASkewedStageIsAsSlowAsItsHottestWorker(t *testing.T) {
	t.Parallel()
	tells := func(s float64) map[string]float64 {
		out := map[string]float64{"done": 100 * s}
		for worker, busy := range map[string]float64{"0": 300, "1": 970, "2": 200, "3": 250} {
			out[`busy{subtask="`+worker+`"}`], out[`held{subtask="`+worker+`"}`] = busy, 1000-busy
		}
		out[`held{subtask="1"}`] = 20
		return out
	}
	p := idle(topology.Resource{Name: "join", Kind: topology.Stage, Done: "done", BusyMS: "busy", BackpressuredMS: "held"}, tells)
	one := derive(t, map[string]planted{"one": p, "two": p}).Variants[0]
	r := one.Components[0].Resources[0]
	if r.Workers != 4 || r.BusyWorkers != 1 {
		t.Errorf("%v of %v workers were busy, want 1 of 4", r.BusyWorkers, r.Workers)
	}
	if !near(r.Busy, 0.97, 0.001) || r.Backpressured == nil || !near(*r.Backpressured, 0.02, 0.001) || !near(r.Bound, 100/0.97, 0.001) {
		t.Errorf("got %+v, want 97 %% busy, held back for 2 %%", r)
	}
	if v := one.Verdict; v.ResourceName != "join" || v.Status != verdict.Named || !strings.Contains(fmt.Sprint(v.Witnesses), "1 of its 4 workers was busy") {
		t.Errorf("got %s %q, want join named", v.Status, v.Summary)
	}
	if want := "spread its work evenly over its 4 workers; more of them do nothing for what comes to one → up to +126 %"; !strings.Contains(one.Verdict.Advice, want) {
		t.Errorf("the advice is %q, want %q", one.Verdict.Advice, want)
	}
}

// A stage that tells only its lag, as a Kafka consumer does.
func TestAStageWithoutBusySecondsLimitsWhenItsLagGrows(t *testing.T) {
	t.Parallel()
	d := topology.Resource{Name: "consume", Kind: topology.Stage, Done: "done", Lag: "lag"}
	lagging := func(grows float64) func(float64) map[string]float64 {
		return func(s float64) map[string]float64 {
			return map[string]float64{"done": (100 - grows) * s, "lag": 50 + grows*s}
		}
	}
	res := derive(t, map[string]planted{"one": idle(d, lagging(25)), "two": idle(d, lagging(1))})
	if v := res.Variants[0].Verdict; v.ResourceName != "consume" || !strings.Contains(v.Witnesses[0].Evidence, "what it could not do in time waited") {
		t.Errorf("got %+v, want consume named and said that work waited", v)
	}
	if r := res.Variants[0].Components[0].Resources[0]; !near(r.Bound, 75, 0.02) || !near(r.Left, 50, 0.2) {
		t.Errorf("got %+v, want 75 a second and 50 left over", r)
	}
	if v := res.Variants[1].Verdict; v.Component != "" {
		t.Errorf("a steady lag: got %+v, want nobody named", v)
	}
}

// What was buffered is worked off after the load has ended, faster than it came.
func TestAFlushAfterTheLoadIsFound(t *testing.T) {
	t.Parallel()
	d := topology.Resource{Name: "insert", Kind: topology.Stage, Done: "done", BusySeconds: "busy", Lag: "lag"}
	tells := func(s float64) map[string]float64 {
		flushed := min(max(0, s-3), 0.5) // seconds
		return map[string]float64{
			"done": 70*min(s, 3) + 180*flushed, "busy": min(s, 3) + flushed, "lag": 30*min(s, 3) - 180*flushed,
		}
	}
	one := derive(t, map[string]planted{"one": idle(d, tells), "two": idle(d, tells)}).Variants[0]
	r := one.Components[0].Resources[0]
	if !near(r.Rate, 70, 0.02) || !near(r.Left, 60, 0.1) || !near(r.Flushed, 90, 0.05) || !near(r.FlushSeconds, 0.5, 0.01) {
		t.Errorf("got %+v, want 70 a second, 60 left, 90 flushed within 0.5 s", r)
	}
	const want = "did 70/s of it while loaded and 90 more within 0.5 s after the load"
	if e := one.Verdict.Witnesses[1].Evidence; !strings.Contains(e, "100 req/s were accepted") || !strings.Contains(e, want) {
		t.Errorf("%q does not say %q", e, want)
	}
	// The next load begins before it is over: what is done then is that load's.
	trial := archive.Trial{Ended: began.Add(time.Minute), Measures: []archive.Measure{
		{Result: load.Result{From: began}}, {Result: load.Result{From: began.Add(9 * time.Second)}}, {Result: load.Result{From: began.Add(20 * time.Second)}},
	}}
	if got, want := nextLoad(trial, began.Add(3*time.Second)), began.Add(8500*time.Millisecond); !got.Equal(want) {
		t.Errorf("the next load begins at %v, want %v", got, want)
	}
}

func TestVisitsAreCounted(t *testing.T) {
	t.Parallel()
	served := topology.Resource{Name: topology.Requests, Kind: topology.Requests, Done: `served_total{handler="get"}`}
	tells := func(s float64) map[string]float64 {
		return map[string]float64{`served_total{handler="get"}`: 300 * s, `served_total{handler="health"}`: 50 * s}
	}
	silent := idle(served, nil)
	res := derive(t, map[string]planted{"one": idle(served, tells), "two": silent})
	one := res.Variants[0]
	if c := one.Components[0]; !near(c.Visits, 3, 0.001) || len(c.Resources) > 0 || len(one.Warnings) > 0 {
		t.Errorf("got %+v, warnings %q, want 3 visits and no resource", c, one.Warnings)
	}
	if e := one.Verdict.Witnesses[0].Evidence; !strings.Contains(e, "needs 250 µs CPU for each request (3 visits of 83.3 µs)") {
		t.Errorf("%q does not tell the visits", e)
	}
	if two := res.Variants[1]; two.Components[0].Visits != 0 || len(two.Warnings) != 1 || !strings.Contains(two.Warnings[0], "x-requests") {
		t.Errorf("nobody tells: got %v visits, warnings %q", two.Components[0].Visits, two.Warnings)
	}
}

// A real front that calls its store three times for each request.
func TestAPlantedFrontVisitsItsStoreThreeTimes(t *testing.T) {
	t.Parallel()
	store := grow(t, plant.DefaultConfig())
	config := plant.DefaultConfig()
	tcp, ok := store.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%v is no TCP address", store.Addr())
	}
	config.Calls = []plant.Call{{Hosts: tcp.IP.String(), Port: tcp.Port, Visits: 3}}
	front := grow(t, config)

	ctx, stop := context.WithCancel(t.Context())
	var scrapes []probe.Scrape
	watched := make(chan error, 1)
	go func() {
		watched <- probe.Run(ctx, probe.Config{
			Endpoints: []probe.Endpoint{
				{Instance: "front-1", URL: func() string { return "http://" + front.AdminAddr().String() + "/metrics" }},
				{Instance: "store-1", URL: func() string { return "http://" + store.AdminAddr().String() + "/metrics" }},
			},
			Interval: time.Second, MetricsInterval: 50 * time.Millisecond,
			Write: func(record any) error {
				if s, ok := record.(*probe.Scrape); ok {
					scrapes = append(scrapes, *s)
				}
				return nil
			},
		})
	}()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	r := load.Result{From: time.Now()}
	for time.Since(r.From) < time.Second {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front.Addr().String()+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		r.IterationsInTime++
	}
	r.To = time.Now()
	stop()
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
	served := []topology.Resource{{Name: topology.Requests, Kind: topology.Requests, Done: "plant_requests_total"}}
	trial := archive.Trial{Ended: r.To, Instances: []topology.Instance{{Service: "front", Name: "front-1", Resources: served}, {Service: "store", Name: "store-1", Resources: served}}}
	for service, want := range map[string]float64{"front": 1, "store": 3} {
		c := verdict.Component{Name: service}
		if _, warnings := declared(&c, trial, scrapes, &r); len(warnings) > 0 || math.Abs(c.Visits-want) > 0.3*want {
			t.Errorf("%s: got %.2f visits, warnings %q, want about %g", service, c.Visits, warnings, want)
		}
	}
}

// grow runs a plant until the test ends.
func grow(t *testing.T, c plant.Config) *plant.Service {
	t.Helper()
	c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
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
	return s
}
