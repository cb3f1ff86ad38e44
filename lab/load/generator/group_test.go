package generator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/loadtest"
)

func startGroup(t *testing.T, names ...string) *Group {
	t.Helper()
	var commands []Command
	for _, name := range names {
		commands = append(commands, Command{Name: name, Argv: playing(t, roleGenerator)})
	}
	g, err := StartGroup(context.Background(), commands, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	g.startsIn, g.nextIn = 10*time.Second, 10*time.Second // here they share two processors with other tests
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// numbered has every arrival of an open plan ask for a path of its own.
func numbered(plan *load.Plan) {
	s := &plan.Scenarios[0]
	s.Steps[0].Request.Path = "/{id}"
	s.Feed = map[string]feed.Feed{"id": {Sequential: &[2]int64{0, 1_000_000}}}
}

// paths serves, and counts how often each path is asked for.
func paths(t *testing.T) (url string, asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	counts := map[string]int{}
	url = serving(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		counts[r.URL.Path]++
	})
	return url, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counts)
	}
}

func TestTwoGeneratorsOfferWhatOneDoes(t *testing.T) {
	t.Parallel()
	oneURL, one := paths(t)
	twoURL, two := paths(t)
	threeURL, three := paths(t)
	for _, c := range []struct {
		url   string
		names []string
	}{{oneURL, []string{"a"}}, {twoURL, []string{"a", "b"}}, {threeURL, []string{"a", "b", "c"}}} {
		plan := loadtest.OpenPlan(c.url, 300, 1200*time.Millisecond, 24)
		plan.Warmup = 200 * time.Millisecond
		numbered(&plan)
		var windows []load.Window
		r, err := startGroup(t, c.names...).Run(t.Context(), plan, func(w load.Window) string {
			windows = append(windows, w)
			return ""
		})
		if err != nil {
			t.Fatal(err)
		}
		loadtest.CheckSums(t, plan, r, windows)
		if r.Failed > 0 || r.Dropped > 0 || len(r.Parts) != len(c.names) {
			t.Errorf("%q: %d failed, %d dropped, %d parts", c.names, r.Failed, r.Dropped, len(r.Parts))
		}
		for i, p := range r.Parts {
			if p.Offered == 0 {
				t.Errorf("%q: generator %d has offered nothing", c.names, i+1)
			}
		}
	}
	for path, n := range two() {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	if !maps.Equal(one(), two()) || !maps.Equal(one(), three()) || len(one()) < 100 {
		t.Errorf("one generator asks for %d paths, two for %d and three for %d: not the same ones", len(one()), len(two()), len(three()))
	}
}

// link is a generator that somebody else has started: here, in this process.
func link(name string) Link {
	in, input := io.Pipe()
	output, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), in, out)
		_ = out.Close()
		served <- err
	}()
	return Link{Name: name, In: input, Out: output, Kill: func() { _ = in.Close() }, Wait: func() error { return <-served }}
}

func TestGeneratorsOfOthersAreJoined(t *testing.T) {
	t.Parallel()
	url, asked := paths(t)
	plan := loadtest.OpenPlan(url, 200, time.Second, 24)
	numbered(&plan)
	g, err := Join(t.Context(), []Link{link("node1"), link("node2")})
	if err != nil {
		t.Fatal(err)
	}
	g.startsIn, g.nextIn = 10*time.Second, 10*time.Second
	r, err := g.Run(t.Context(), plan, nil)
	if err != nil || r.Failed > 0 || len(r.Parts) != 2 || r.Parts[0].Offered == 0 || r.Parts[1].Offered == 0 {
		t.Errorf("got %+v, %v", r.Parts, err)
	}
	if want := loadtest.Due(plan); uint64(len(asked())) != want {
		t.Errorf("%d paths were asked for, want %d", len(asked()), want)
	}
	for path, n := range asked() {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	// Why one has ended is told.
	output, out := io.Pipe()
	input, in := io.Pipe()
	go func() {
		_, _ = bufio.NewReader(input).ReadBytes('\n')
		_ = out.CloseWithError(errors.New("its pod was evicted"))
	}()
	evicted := Link{Name: "node3", In: in, Out: output, Kill: func() { _ = input.Close() }, Wait: func() error { return nil }}
	if _, err := Join(t.Context(), []Link{link("node1"), evicted}); err == nil || !strings.Contains(err.Error(), "generator node3: compare clocks: load generator: its pod was evicted") {
		t.Errorf("got %v", err)
	}
}

// A generator that is elsewhere is asked whether it is there while it offers load. One that says
// nothing is given up, and one that is not asked any more gives up its load.
func TestSilenceEndsALoad(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(answering(t), 100, time.Second, 4)
	asked := overLink(link("node1"))
	asked.beat, asked.patience = time.Millisecond, time.Hour
	for range 2 { // what comes late of the first is in nobody's way
		if r, err := asked.Run(t.Context(), plan, nil); err != nil || r.Offered != loadtest.Due(plan) {
			t.Errorf("offered %d of %d, %v", r.Offered, loadtest.Due(plan), err)
		}
	}
	if err := asked.Close(); err != nil {
		t.Error(err)
	}

	output, out := io.Pipe()
	input, in := io.Pipe()
	var heard sync.WaitGroup
	heard.Go(func() { _, _ = io.Copy(io.Discard, input) })
	cut := overLink(Link{Name: "node2", In: in, Out: output, Kill: func() { _ = out.Close() }, Wait: func() error { return nil }})
	cut.beat, cut.patience = time.Millisecond, 50*time.Millisecond
	if _, err := cut.Run(t.Context(), plan, nil); !errors.Is(err, errSilent) {
		t.Errorf("got %v, want that it is silent", err)
	}
	_ = in.Close()
	heard.Wait()

	input, in = io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), input, io.Discard, 50*time.Millisecond) }()
	plan.Scenarios[0].Duration = time.Hour
	line, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(in, "%s\n%s", line, askClock); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, errSilent) {
		t.Errorf("got %v, want that whoever asked is silent", err)
	}
	_ = in.Close()
}

func TestClosedUsersAreShared(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(answering(t), 5, 2*time.Second)
	r, err := startGroup(t, "a", "b").Run(t.Context(), plan, nil)
	if err != nil || r.Requests == 0 || len(r.Parts) != 2 || r.MaxInFlight > 5 {
		t.Errorf("got %d requests, %d at once, of %d parts, %v", r.Requests, r.MaxInFlight, len(r.Parts), err)
	}
	plan = loadtest.ClosedPlan(answering(t), 1, 2*time.Second)
	if r, err := startGroup(t, "a", "b").Run(t.Context(), plan, nil); err != nil || r.Requests == 0 {
		t.Errorf("one user: got %d requests, %v", r.Requests, err)
	}
}

func TestOneWordStopsAllGenerators(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(answering(t), 100, time.Hour, 4)
	r, err := startGroup(t, "a", "b").Run(t.Context(), plan, func(load.Window) string { return "enough" })
	if err != nil || r.Aborted != "enough" || r.Requests == 0 {
		t.Errorf("got %q, %d requests, %v", r.Aborted, r.Requests, err)
	}
}

func TestAGroupSaysWhichGeneratorFailed(t *testing.T) {
	t.Parallel()
	_, err := StartGroup(t.Context(), []Command{{Name: "a", Argv: playing(t, roleGenerator)}, {Name: "there", Argv: []string{"false"}}}, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "generator there: compare clocks") {
		t.Errorf("got %v", err)
	}
	g := startGroup(t, "a", "b")
	if clocks := g.Clocks(); len(clocks) != 2 || !strings.HasPrefix(clocks[1], "the clock of generator b is ahead by ") {
		t.Errorf("got %q", clocks)
	}
	plan := loadtest.OpenPlan(answering(t), 100, time.Second, 4)
	plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = load.SharedIterations, 10
	plan.Scenarios[0].VUs = 2
	if _, err := g.Run(t.Context(), plan, nil); err == nil || !strings.Contains(err.Error(), "shared iterations cannot be shared") {
		t.Errorf("got %v", err)
	}
}

// Seconds are handed out once, in order, and none before every generator has told of it.
func TestSecondsAreMerged(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	empty, err := load.EncodeHistogram(load.NewHistogram())
	if err != nil {
		t.Fatal(err)
	}
	window := func(second int, requests uint64) load.Window {
		jitter := time.Duration(requests) * time.Millisecond
		return load.Window{Start: began.Add(time.Duration(second)*time.Second + jitter), Requests: requests, Response: empty, Service: empty}
	}
	var got []string
	s := &seconds{waiting: make([][]load.Window, 2), ended: make([]bool, 2)}
	s.onWindow = func(w load.Window) string {
		got = append(got, fmt.Sprintf("%d:%d", int(w.Start.Sub(began).Seconds()), w.Requests))
		return ""
	}
	s.add(0, window(0, 1))
	s.add(0, window(1, 2))
	if len(got) > 0 {
		t.Errorf("handed out before the second generator has told: %q", got)
	}
	s.add(1, window(0, 4))
	s.add(1, window(2, 8)) // nothing in its second 1
	s.end(0)
	s.end(1)
	if want := "[0:5 1:2 2:8]"; fmt.Sprint(got) != want || s.err != nil {
		t.Errorf("got %q, %v, want %s", got, s.err, want)
	}
}
