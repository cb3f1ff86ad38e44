package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// counted is a server that counts what it is asked for. Its list has three pages.
type counted struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]int
}

func openCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{seen: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[r.URL.String()]++
		switch page := r.URL.Query().Get("after"); {
		case r.URL.Path == "/list" && page == "2":
			fmt.Fprint(w, `{"last": true}`)
		case r.URL.Path == "/list" && page == "1":
			fmt.Fprint(w, `{"next": 2}`)
		case r.URL.Path == "/list":
			fmt.Fprint(w, `{"next": 1}`)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// count is how often something was asked for.
func (c *counted) count(url string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[url]
}

func getStep(name, path string) load.Step {
	return load.Step{Name: name, Request: load.Request{Method: http.MethodGet, Path: path}}
}

// TestConditions has steps and groups made where what an answer or a feed says is so, and a
// list be read page by page until there is no next one.
func TestConditions(t *testing.T) {
	t.Parallel()
	csv := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(csv, []byte("name,role\nann,admin\nbob,guest\ncy,guest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const iterations = 12 // four of each user
	list := getStep("list", "/list?after={next}")
	list.Extract = map[string]load.Extract{"next": {JSON: "next", Initial: new(""), Default: new("none")}}
	is := func(value string, of ...string) []load.Condition { return []load.Condition{{Value: value, Is: of}} }
	not := func(value string, of ...string) []load.Condition { return []load.Condition{{Value: value, Not: of}} }
	for _, executor := range []string{load.SharedIterations, load.ConstantArrivalRate} {
		s := openCounted(t)
		scenario := load.Scenario{
			Name: "c", Executor: executor, VUs: 2, Iterations: iterations, Duration: 2 * time.Minute, GracefulStop: 5 * time.Second,
			Feed: map[string]feed.Feed{"user": {CSV: &feed.File{Path: csv}}},
			Steps: []load.Step{
				list, getStep("admin", "/admin/{user.name}"), getStep("both", "/both"), getStep("not-admin", "/guest/{user.name}"), getStep("never", "/never"), getStep("end", "/end"),
			},
			Flow: []load.Part{
				{Repeat: 10, While: not("next", "none"), Parts: []load.Part{{Step: 0}}},
				{Step: 1, If: is("user.role", "admin")},
				{If: append(is("user.role", "admin", "guest"), is("user.name", "bob")...), Parts: []load.Part{{Step: 2}, {Step: 4, If: is("next", "1", "2")}}},
				{Parallel: 2, Parts: []load.Part{{Step: 3, If: not("user.role", "admin")}, {Step: 5}}},
			},
		}
		if executor == load.ConstantArrivalRate {
			scenario.Duration, scenario.Rate, scenario.Arrivals = time.Second, iterations, load.Uniform
			scenario.PreAllocatedVUs, scenario.MaxVUs = 4, 100
		}
		r, _ := mustRun(t, load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: time.Minute, Scenarios: []load.Scenario{scenario}})
		if r.Iterations != iterations || r.Failed > 0 {
			t.Fatalf("%s: %d iterations, %d failed, %v; want %d and none", executor, r.Iterations, r.Failed, r.Errors, iterations)
		}
		for url, want := range map[string]int{
			"/list?after=": iterations, "/list?after=1": iterations, "/list?after=2": iterations, "/list?after=none": 0,
			"/admin/ann": 4, "/admin/bob": 0, "/both": 4, "/guest/ann": 0, "/guest/bob": 4, "/guest/cy": 4, "/never": 0, "/end": iterations,
		} {
			if got := s.count(url); got != want {
				t.Errorf("%s: %s was asked for %d times, want %d", executor, url, got, want)
			}
		}
	}
}

// TestWhileIsBounded has a condition that always holds: the passes end all the same.
func TestWhileIsBounded(t *testing.T) {
	t.Parallel()
	s := openCounted(t)
	r, _ := mustRun(t, load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: time.Minute, Scenarios: []load.Scenario{{
		Name: "c", Executor: load.PerVUIterations, VUs: 1, Iterations: 2, Duration: 2 * time.Minute, GracefulStop: time.Second,
		Feed:  map[string]feed.Feed{"id": {Uniform: &[2]int64{1, 1}}},
		Steps: []load.Step{getStep("a", "/a")},
		Flow:  []load.Part{{Repeat: 7, While: []load.Condition{{Value: "id", Is: []string{"1"}}}, Parts: []load.Part{{Step: 0}}}},
	}}})
	if r.Requests != 14 || s.count("/a") != 14 {
		t.Errorf("%d requests, want 7 in each of two iterations", r.Requests)
	}
}

// TestIterationsWithNothingToDo end, and do not keep a user of the closed model from others,
// nor its stack from ending.
func TestIterationsWithNothingToDo(t *testing.T) {
	t.Parallel()
	s := openCounted(t)
	for _, parallel := range []int{0, 2} {
		plan := load.Plan{Targets: []string{s.URL}, Seed: 1, Timeout: time.Minute, Scenarios: []load.Scenario{{
			Name: "c", Executor: load.ConstantVUs, VUs: 3, Duration: 300 * time.Millisecond, GracefulStop: time.Minute,
			Feed:  map[string]feed.Feed{"id": {Uniform: &[2]int64{1, 1}}},
			Steps: []load.Step{getStep("a", "/a"), getStep("b", "/b")},
			Flow: []load.Part{{Parallel: parallel, Repeat: 1, Parts: []load.Part{
				{Step: 0, If: []load.Condition{{Value: "id", Is: []string{"2"}}}}, {Step: 1, If: []load.Condition{{Value: "id", Not: []string{"1"}}}},
			}}},
		}}}
		if r, _ := mustRun(t, plan); r.Requests != 0 || r.Failed > 0 {
			t.Errorf("parallel %d: %d requests, %v; want none", parallel, r.Requests, r.Errors)
		}
		// In so short a time there may have been none.
		plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations, plan.Scenarios[0].Duration = load.PerVUIterations, 1000, time.Minute
		if r, _ := mustRun(t, plan); r.Requests != 0 || r.Iterations != 3000 || r.Failed > 0 {
			t.Errorf("parallel %d: %d requests, %d iterations, %v; want none, and 1000 of each user", parallel, r.Requests, r.Iterations, r.Errors)
		}
	}
}
