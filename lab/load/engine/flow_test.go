package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/loadtest"
	"loadstone/lab/load/roundtrip"
)

// posts is a server with an app's feed: a list in pages, three kinds of details of
// each post, of which one post lacks the last, and what is asked for once in a while.
// It counts what it is asked for.
type posts struct {
	*httptest.Server
	mu     sync.Mutex
	seen   map[string]int // by the path's first element
	paths  map[string]int
	conns  map[net.Conn]bool
	atOnce int
	most   int
	gate   chan struct{} // through which requests for /meet meet
}

const postCount = 63

func openPosts(tb testing.TB, start func(*httptest.Server)) *posts {
	tb.Helper()
	p := &posts{seen: map[string]int{}, paths: map[string]int{}, conns: map[net.Conn]bool{}, gate: make(chan struct{})}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.EnableHTTP2 = true
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.Config.ConnState = func(c net.Conn, s http.ConnState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s == http.StateActive {
			p.conns[c] = true
		}
	}
	start(p.Server)
	tb.Cleanup(p.Close)
	return p
}

// startPlainHTTP2 starts a server that speaks HTTP/2 without TLS.
func startPlainHTTP2(s *httptest.Server) {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
}

func (p *posts) serve(w http.ResponseWriter, r *http.Request) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	p.mu.Lock()
	p.seen[kind]++
	p.paths[r.URL.Path]++
	p.atOnce++
	p.most = max(p.most, p.atOnce)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.atOnce--
	}()
	switch kind {
	case "list":
		p.list(w, r)
	case "batch":
		var body struct {
			IDs []string `json:"ids"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.IDs) == 0 {
			w.WriteHeader(http.StatusBadRequest)
		}
	case "likes":
		if rest == lastPost {
			w.WriteHeader(http.StatusNotFound)
		}
	case "meet":
		select {
		case p.gate <- struct{}{}:
		case <-p.gate:
		case <-time.After(time.Minute):
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}
}

// lastPost has no likes.
const lastPost = "post/63"

// list is a page: {"posts": [{"id": ..., "liked": true}], "next": cursor}.
func (p *posts) list(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	first := 1
	if after := r.FormValue("after"); after != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(after, "c "))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		first = n + 1
	}
	type post struct {
		ID    string `json:"id"`
		Liked bool   `json:"liked"`
	}
	page := struct {
		Posts []post `json:"posts"`
		Next  string `json:"next"`
	}{Posts: []post{}}
	for n := first; n < first+limit && n <= postCount; n++ {
		id := fmt.Sprintf("post/%d", n)
		page.Posts = append(page.Posts, post{id, id != lastPost})
		page.Next = fmt.Sprintf("c %d", n)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// The journeys of an app that shows the feed: one call for each part, details of a
// post together, and ten posts a call. once is what all of them ask for.
func separate() ([]load.Step, []load.Part) {
	steps := []load.Step{
		asked("once", "/once"), listStep(1), asked("author", "/author/{id}"), asked("comments", "/comments/{id}"), asked("likes", "/likes/{liked}"),
	}
	steps[1].Extract["likes"] = load.Extract{JSON: "posts.#(liked==true)#.id"}
	return steps, []load.Part{
		once(),
		{Repeat: postCount, Parts: []load.Part{
			{Step: 1},
			{ForEach: "ids", As: "id", Parts: []load.Part{
				{Parallel: 6, Parts: []load.Part{{Step: 2}, {Step: 3}, {ForEach: "likes", As: "liked", Parts: []load.Part{{Step: 4}}}}},
			}},
		}},
	}
}

func bundled() ([]load.Step, []load.Part) {
	return []load.Step{asked("once", "/once"), listStep(1), asked("bundle", "/bundle/{id}")}, []load.Part{
		once(),
		{Repeat: postCount, Parts: []load.Part{{Step: 1}, {ForEach: "ids", As: "id", Parts: []load.Part{{Step: 2}}}}},
	}
}

func batched() ([]load.Step, []load.Part) {
	batch := load.Step{Name: "batch", Request: load.Request{Method: "POST", Path: "/batch", Body: `{"ids": {ids}}`}}
	return []load.Step{asked("once", "/once"), listStep(10), batch}, []load.Part{
		once(),
		{Repeat: 7, Parts: []load.Part{{Step: 1}, {Step: 2}}},
	}
}

func once() load.Part { return load.Part{Repeat: 14, Parallel: 6, Parts: []load.Part{{Step: 0}}} }

func asked(name, path string) load.Step {
	return load.Step{Name: name, Request: load.Request{Method: "GET", Path: path}}
}

func listStep(limit int) load.Step {
	s := asked("list", fmt.Sprintf("/list?limit=%d&after={cursor}", limit))
	none := ""
	s.Extract = map[string]load.Extract{"ids": {JSON: "posts.#.id"}, "cursor": {JSON: "next", Initial: &none}}
	return s
}

// journeys is a plan of users who make a journey each, so often.
func journeys(url string, users int, each uint64, steps []load.Step, flow []load.Part) load.Plan {
	return load.Plan{
		Targets: []string{url}, Seed: 1, Timeout: time.Minute,
		Scenarios: []load.Scenario{{
			Name: "feed", Executor: load.PerVUIterations, VUs: users, Iterations: each, Duration: 2 * time.Minute, GracefulStop: time.Second,
			Steps: steps, Flow: flow,
		}},
	}
}

// TestJourneysMakeTheirCalls: 265, 140 and 28 calls serve the same user, as the server
// counts them, whatever they go over.
func TestJourneysMakeTheirCalls(t *testing.T) {
	t.Parallel()
	type variant struct {
		journey func() ([]load.Step, []load.Part)
		calls   uint64
		want    map[string]int
	}
	variants := map[string]variant{
		"265": {separate, 265, map[string]int{"list": 63, "once": 14, "author": 63, "comments": 63, "likes": 62}},
		"140": {bundled, 140, map[string]int{"list": 63, "once": 14, "bundle": 63}},
		"28":  {batched, 28, map[string]int{"list": 7, "once": 14, "batch": 7}},
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, over := range map[string]struct {
		start  func(*httptest.Server)
		change func(*load.Plan)
		conns  int // for each user; 0 if all share some
	}{
		"http/1.1":                  {(*httptest.Server).Start, func(*load.Plan) {}, 6},
		"http/1.1, four to share":   {(*httptest.Server).Start, func(p *load.Plan) { p.Connections = 4 }, 0},
		"h2c":                       {startPlainHTTP2, func(p *load.Plan) { p.Protocol = load.HTTP2 }, 1},
		"h2c, one to share":         {startPlainHTTP2, func(p *load.Plan) { p.Protocol, p.Connections = load.HTTP2, 1 }, 0},
		"https":                     {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS.CAFile = ca }, 6},
		"http/1.1, on two threads":  {(*httptest.Server).Start, func(p *load.Plan) { p.Threads = 2 }, 6},
		"http/1.1 with two targets": {(*httptest.Server).Start, func(p *load.Plan) { p.Targets = append(p.Targets, p.Targets[0]) }, 6},
	} {
		for calls, v := range variants {
			if name != "http/1.1" && calls == "140" {
				continue // the others have all that it has
			}
			t.Run(name+", "+calls, func(t *testing.T) {
				s := openPosts(t, over.start)
				if s.Certificate() != nil {
					writeCertificate(t, ca, s.Server)
				}
				const users, each = 2, 2
				steps, flow := v.journey()
				plan := journeys(s.URL, users, each, steps, flow)
				over.change(&plan)
				r, _ := mustRun(t, plan)
				if r.Iterations != users*each || r.Requests != users*each*v.calls || r.Failed > 0 {
					t.Errorf("%d iterations, %d requests, %d failed, %v %v; want %d, %d, none", r.Iterations, r.Requests, r.Failed, r.Status, r.Errors, users*each, users*each*v.calls)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				for kind, n := range v.want {
					if s.seen[kind] != users*each*n {
						t.Errorf("the server saw %v; want %d times %v", s.seen, users*each, v.want)
						break
					}
				}
				if len(s.seen) != len(v.want) {
					t.Errorf("the server saw %v, want %v", s.seen, v.want)
				}
				// net/http gives a connection up if a request was answered and its goroutine does
				// not say within 50 ms that it was sent, as on a machine that stands still.
				want, most := users*over.conns, users*over.conns
				if s.TLS != nil {
					most = int(r.Requests) / 4
				}
				if over.conns > 0 && (len(s.conns) < want || len(s.conns) > max(most, want)) {
					t.Errorf("%d connections, want %d: each user's own", len(s.conns), want)
				}
				if s.most > users*6 {
					t.Errorf("%d requests at once of %d users who have six at most", s.most, users)
				}
				for n := 1; calls == "265" && n <= postCount; n++ {
					if path := fmt.Sprintf("/author/post/%d", n); s.paths[path] != users*each {
						t.Errorf("%s was asked for %d times, want %d", path, s.paths[path], users*each)
					}
				}
			})
		}
	}
}

// TestParallelIsAtOnce: requests that wait for each other meet in pairs; one lane makes
// one after the other.
func TestParallelIsAtOnce(t *testing.T) {
	t.Parallel()
	s := openPosts(t, (*httptest.Server).Start)
	plan := journeys(s.URL, 1, 1, []load.Step{asked("meet", "/meet")}, []load.Part{once()})
	r, _ := mustRun(t, plan)
	if r.Requests != 14 || r.Failed > 0 {
		t.Errorf("%d requests, statuses %v; want 14 that met in pairs", r.Requests, r.Status)
	}
	for _, lanes := range []int{0, 1} {
		s := openPosts(t, (*httptest.Server).Start)
		plan := journeys(s.URL, 1, 1, []load.Step{asked("once", "/once")}, []load.Part{{Repeat: 14, Parallel: lanes, Parts: []load.Part{{Step: 0}}}})
		r, _ = mustRun(t, plan)
		if s.mu.Lock(); r.Requests != 14 || s.most != 1 || len(s.conns) != 1 {
			t.Errorf("%d lanes: %d requests, %d at once, %d connections; want 14, 1, 1", lanes, r.Requests, s.most, len(s.conns))
		}
		s.mu.Unlock()
	}
}

// TestWhatFollowsAFailure: a request without an answer ends an iteration where it is; in
// what is done at once the others are made all the same, and nothing after them. A status
// ends nothing. So it is in k6.
func TestWhatFollowsAFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bad    string // what happens to the third request for /item
		flow   []load.Part
		items  int
		after  int
		failed uint64
	}{
		"in turn":                 {"reset", []load.Part{{Repeat: 8, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 3, 0, 1},
		"at once":                 {"reset", []load.Part{{Repeat: 8, Parallel: 2, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 8, 0, 1},
		"parts at once":           {"reset", []load.Part{{Parallel: 2, Parts: []load.Part{{Repeat: 5, Parts: []load.Part{{Step: 0}}}, {Step: 1}}}, {Step: 1}}, 3, 1, 1},
		"a status, in turn":       {"status", []load.Part{{Repeat: 8, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 8, 1, 1},
		"a status, at once":       {"status", []load.Part{{Repeat: 8, Parallel: 2, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 8, 1, 1},
		"nobody is listening":     {"nobody", []load.Part{{Repeat: 500, Parallel: 3, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 0, 0, 500},
		"nobody, one connection":  {"nobody", []load.Part{{Repeat: 500, Parallel: 3, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 0, 0, 500},
		"nowhere":                 {"nowhere", []load.Part{{Repeat: 500, Parallel: 3, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 0, 0, 500},
		"nowhere, one connection": {"nowhere", []load.Part{{Repeat: 500, Parallel: 3, Parts: []load.Part{{Step: 0}}}, {Step: 1}}, 0, 0, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			items, after := 0, 0
			server := serveRaw(t, func(c *rawConn) {
				for q := c.request(); q != nil; q = c.request() {
					mu.Lock()
					n := 0
					if q.URL.Path == "/item" {
						items++
						n = items
					} else {
						after++
					}
					mu.Unlock()
					switch {
					case n == 3 && test.bad == "reset":
						c.reset()
						return
					case n == 3:
						c.send("HTTP/1.1 500 Oh|Content-Length: 0||")
					default:
						c.send(okAnswer)
					}
				}
			})
			url := server.url
			switch test.bad {
			case "nobody":
				url = closedPort(t)
			case "nowhere":
				url = nowhere
			}
			plan := journeys(url, 1, 1, []load.Step{asked("item", "/item"), asked("after", "/after")}, test.flow)
			if url != server.url { // and what it finds before it begins does not count
				plan.Scenarios[0].Executor, plan.Scenarios[0].Arrivals = load.ConstantArrivalRate, load.Uniform
				plan.Scenarios[0].Rate, plan.Scenarios[0].Duration = 10, 100*time.Millisecond
				plan.Scenarios[0].MaxVUs, plan.Scenarios[0].GracefulStop = 1, time.Minute
				if strings.Contains(name, "one connection") {
					plan.Connections = 1
				}
			}
			r, _ := mustRun(t, plan)
			if j := r.Journeys[0]; j.Duration.Max < r.Response.Max {
				t.Errorf("an iteration took %v ms at most, and one of its requests %v", j.Duration.Max, r.Response.Max)
			}
			mu.Lock()
			defer mu.Unlock()
			if items != test.items || after != test.after || r.Failed != test.failed || r.Iterations != 1 {
				t.Errorf("%d items, %d after them, %d failed (%v), %d iterations; want %d, %d, %d, 1",
					items, after, r.Failed, r.Errors, r.Iterations, test.items, test.after, test.failed)
			}
		})
	}
}

// nowhere is an address that the system refuses to connect to at once: it sends nothing.
const nowhere = "http://255.255.255.255:9"

// nested is a link that notes how many of its sends are under way within each other. Its
// first takes a moment to fail, in which others wait for it.
type nested struct {
	link
	begun     bool
	now, most int
}

func (n *nested) send(u *user) {
	if !n.begun {
		n.begun = true
		u.loop.timers.add(u.sent+time.Millisecond, func(at time.Duration) {
			u.done = at
			u.answered(0, failure.Refused, syscall.ECONNREFUSED)
		})
		return
	}
	n.now++
	n.most = max(n.most, n.now)
	n.link.send(u)
	n.now--
}

// TestConnectionsAreHandedOnInALoop: where all that many users ask for at once fails at
// once, a connection is not handed on from within the failure before.
func TestConnectionsAreHandedOnInALoop(t *testing.T) {
	t.Parallel()
	plan := journeys(nowhere, 200, 1, []load.Step{asked("once", "/once")}, []load.Part{{Repeat: 10, Parallel: 10, Parts: []load.Part{{Step: 0}}}})
	plan.Connections, plan.Threads = 2, 1
	r, err := newRun(t.Context(), &plan, func(load.Window) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	slots := r.loops[0].slots
	var links []*nested
	for i, l := range slots.all {
		links = append(links, &nested{link: l})
		slots.all[i], slots.free[i] = links[i], links[i]
	}
	if err := errors.Join(r.perform(t.Context(), nil), r.closeLoops()); err != nil {
		t.Fatal(err)
	}
	result, err := r.result()
	if err != nil {
		t.Fatal(err)
	}
	if result.Requests != 2000 || result.Failed != 2000 {
		t.Errorf("%d requests, %d failed; want 2000, all of them", result.Requests, result.Failed)
	}
	for _, l := range links {
		if l.most > 1 {
			t.Errorf("%d sends on one connection lie within each other", l.most)
		}
	}
}

// TestListsThatAreNone end the iteration with a reason, and nothing is done for them.
func TestListsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, want string }{
		"nothing there":  {`{}`, "has no value at ids for {ids}"},
		"a text":         {`{"ids": "a"}`, `at ids: there is "a", and forEach or join needs a list`},
		"an object":      {`{"ids": {"a": 1}}`, `there is {"a": 1}, and forEach or join needs a list`},
		"with an object": {`{"ids": ["a", {"b": 1}]}`, `value 2 of the list is {"b": 1}, and forEach or join needs texts`},
		"with null":      {`{"ids": [null]}`, "value 1 of the list is null"},
		"too long":       {`{"ids": [` + strings.Repeat("1,", load.MaxListed) + `1]}`, "the list has more than 10000 values"},
		"empty":          {`{"ids": []}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveRaw(t, func(c *rawConn) {
				for c.request() != nil {
					c.send("HTTP/1.1 200 OK|Content-Length: " + strconv.Itoa(len(test.body)) + "||")
					_, _ = c.Write([]byte(test.body))
				}
			})
			list := asked("list", "/")
			list.Extract = map[string]load.Extract{"ids": {JSON: "ids"}}
			for _, lanes := range []int{0, 6} {
				plan := journeys(server.url, 2, 3, []load.Step{list, asked("one", "/{id}"), asked("last", "/last")},
					[]load.Part{{Step: 0}, {ForEach: "ids", As: "id", Parallel: lanes, Parts: []load.Part{{Step: 1}}}, {Step: 2}})
				r, _ := mustRun(t, plan)
				e := r.Errors[failure.NoValue.String()]
				if test.want == "" {
					if r.Failed > 0 || r.Requests != 12 || r.Steps[2].Requests != 6 {
						t.Errorf("%d requests, %v; want 6 of the first step and of the last", r.Requests, r.Errors)
					}
					continue
				}
				if e.Count != 6 || r.Requests != 6 || !strings.Contains(e.Example, test.want) {
					t.Errorf("%d requests, errors %v; want 6 failures that say %q", r.Requests, r.Errors, test.want)
				}
			}
		})
	}
}

// TestLanesAreCutOff: what is done at once ends when its time is over, whatever it waits
// for, and nothing more of it is begun.
func TestLanesAreCutOff(t *testing.T) {
	t.Parallel()
	hold := func(s *httptest.Server) {
		s.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	}
	for name, change := range map[string]func(*load.Plan){
		"waiting for answers":     func(*load.Plan) {},
		"waiting for connections": func(p *load.Plan) { p.Connections = 2 },
		"over h2c":                func(p *load.Plan) { p.Protocol = load.HTTP2 },
		"from a schedule": func(p *load.Plan) {
			s := &p.Scenarios[0]
			s.Executor, s.Rate, s.Arrivals, s.MaxVUs = load.ConstantArrivalRate, 30, load.Uniform, 4
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openPosts(t, func(s *httptest.Server) {
				hold(s)
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
			})
			plan := journeys(s.URL, 3, 1, []load.Step{asked("once", "/once")}, []load.Part{once(), {Step: 0}})
			plan.Scenarios[0].Executor = load.ConstantVUs
			change(&plan)
			plan.Scenarios[0].Duration, plan.Scenarios[0].GracefulStop = 3*time.Second, 100*time.Millisecond
			r, err := Run(t.Context(), plan, nil, nil) // what waited for a connection has no service time
			if err != nil {
				t.Fatal(err)
			}
			cut := r.Errors[failure.CutOff.String()].Count
			if r.Requests == 0 || cut != r.Requests || r.Requests > 6*4 {
				t.Errorf("%d requests, %v; want some, all cut off, six a user at most", r.Requests, r.Errors)
			}
		})
	}
}

// TestUsersWhoThinkHaveNotBrokenOff: an iteration whose time is over while it pauses had
// all that it asked for, and asks for nothing after that.
func TestUsersWhoThinkHaveNotBrokenOff(t *testing.T) {
	t.Parallel()
	s := openPosts(t, (*httptest.Server).Start)
	for name, flow := range map[string][]load.Part{
		"in turn": nil,
		"at once": {{Repeat: 9, Parallel: 3, Parts: []load.Part{{Step: 0}}}, {Step: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := journeys(s.URL, 3, 1, []load.Step{asked("once", "/once")}, flow)
			spec := &plan.Scenarios[0]
			spec.Executor, spec.Duration, spec.GracefulStop = load.ConstantVUs, 3*time.Second, 100*time.Millisecond
			spec.Steps[0].Think = [2]time.Duration{time.Hour, time.Hour}
			r, _ := mustRun(t, plan)
			cut, j := r.Errors[failure.CutOff.String()].Count, r.Journeys[0]
			if j.Iterations != 3 || j.BrokenOff > cut || r.Requests > 9 {
				t.Errorf("%d iterations, %d broke off, and %d requests of %d were cut off; want 3, and none but with such a request", j.Iterations, j.BrokenOff, cut, r.Requests)
			}
		})
	}
}

// TestAStallShowsInWhatFollows: the first request of an iteration counts from when the
// schedule had it, also where an iteration begins with several at once.
func TestAStallShowsInWhatFollows(t *testing.T) {
	t.Parallel()
	const slow = 100 * time.Millisecond
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			time.Sleep(slow) // what the service takes
			c.send(okAnswer)
		}
	})
	for name, flow := range map[string][]load.Part{
		"in turn": {{Repeat: 2, Parts: []load.Part{{Step: 0}}}},
		"at once": {{Repeat: 2, Parallel: 2, Parts: []load.Part{{Step: 0}}}, {Step: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := journeys(server.url, 1, 1, []load.Step{asked("once", "/once")}, flow)
			s := &plan.Scenarios[0]
			s.Executor, s.Rate, s.Arrivals, s.MaxVUs = load.ConstantArrivalRate, 20, load.Uniform, 1
			s.Duration, s.GracefulStop = time.Second, time.Minute
			r, _ := mustRun(t, plan)
			// Twenty iterations of twice that time, one after the other, all due within a second.
			if least := 1000 * (19*2*slow - time.Second).Seconds(); r.Iterations != 20 || r.Response.Max < least {
				t.Errorf("%d iterations, the longest response time is %.0f ms, want 20 and at least %.0f ms", r.Iterations, r.Response.Max, least)
			}
			if r.Waited > 20 || r.Waited < 15 {
				t.Errorf("%d arrivals waited, want most of 20: each iteration has one", r.Waited)
			}
		})
	}
}

// TestWhatLanesExtract: what is extracted at once is there afterwards, and in each lane
// it is the lane's own.
func TestWhatLanesExtract(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	paths := map[string]int{}
	server := serveRaw(t, func(c *rawConn) {
		for q := c.request(); q != nil; q = c.request() {
			mu.Lock()
			paths[q.URL.Path]++
			mu.Unlock()
			body := fmt.Sprintf(`{"ids": ["a", "b", "c"], "of": %q}`, q.URL.Path)
			c.send("HTTP/1.1 200 OK|Set-Cookie: s=1; Path=/|Content-Length: " + strconv.Itoa(len(body)) + "||")
			_, _ = c.Write([]byte(body))
		}
	})
	steps := []load.Step{asked("list", "/"), asked("one", "/one-{id}"), asked("of", "/of{one}"), asked("left", "/left"), asked("right", "/right"), asked("both", "{l}{r}")}
	steps[0].Extract = map[string]load.Extract{"ids": {JSON: "ids"}}
	steps[1].Extract = map[string]load.Extract{"one": {JSON: "of"}, "l": {JSON: "of"}} // the lane's own
	steps[3].Extract = map[string]load.Extract{"l": {JSON: "of"}}
	steps[4].Extract = map[string]load.Extract{"r": {JSON: "of"}}
	steps[5].Request.Path = "/both{l}{r}"
	plan := journeys(server.url, 2, 2, steps, []load.Part{
		{Step: 0},
		{ForEach: "ids", As: "id", Parallel: 3, Parts: []load.Part{{Step: 1}, {Step: 2}}},
		{Parallel: 2, Parts: []load.Part{{Step: 3}, {Step: 4}}},
		{Step: 5},
	})
	for i := range steps {
		steps[i].Think = [2]time.Duration{0, 2 * time.Millisecond}
	}
	r, _ := mustRun(t, plan)
	if r.Failed > 0 || r.Iterations != 4 {
		t.Errorf("%d iterations, errors %v; want 4 without", r.Iterations, r.Errors)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"/": 4, "/left": 4, "/right": 4, "/both/left/right": 4}
	for _, id := range []string{"a", "b", "c"} {
		want["/one-"+id], want["/of/one-"+id] = 4, 4
	}
	if !maps.Equal(paths, want) {
		t.Errorf("the server saw %v, want %v", paths, want)
	}
}

// TestThinkTimesInAFlow: pauses are drawn anew for each pass, and the same again with
// the same seed.
func TestThinkTimesInAFlow(t *testing.T) {
	t.Parallel()
	_, flow := separate()
	script := &script{key: 7, steps: []step{{index: 3}}, flowNodes: (&script{}).flow(flow[:1])}
	draw := func(passes ...int) uint64 {
		u := &user{script: script, journey: &journey{}}
		for _, pass := range passes {
			u.journey.stack = append(u.journey.stack, frame{pass: pass})
		}
		return u.stream()
	}
	all := []uint64{draw(0), draw(1), draw(0, 0), draw(0, 1), draw(1, 0), draw(1, 1)}
	if n := len(slices.Compact(slices.Sorted(slices.Values(all)))); n != len(all) {
		t.Errorf("%d different draws of %d passes", n, len(all))
	}
	if draw(1, 0) != all[4] {
		t.Error("the same pass draws something else")
	}
}

// TestIterationsAreTimed: from when they were intended to their end, with what they waited
// and paused, and apart from their requests.
func TestIterationsAreTimed(t *testing.T) {
	t.Parallel()
	const slow = 20 * time.Millisecond
	var requests atomic.Int64
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			time.Sleep(slow) // what the service takes
			if requests.Add(1) == 7 {
				c.reset()
				return
			}
			c.send(okAnswer)
		}
	})
	plan := journeys(server.url, 1, 5, []load.Step{asked("one", "/"), asked("two", "/")}, nil)
	s := &plan.Scenarios[0]
	s.Steps[0].Think = [2]time.Duration{slow, slow}
	plan.Scenarios = append(plan.Scenarios, *s)
	alone := &plan.Scenarios[1]
	alone.Name, alone.StartTime, alone.Steps = "alone", 1500*time.Millisecond, []load.Step{asked("alone", "/")}
	r, windows := mustRun(t, plan)
	if len(r.Journeys) != 2 || r.Journeys[0].Scenario != "feed" || r.Journeys[1].Scenario != "alone" {
		t.Fatalf("journeys %+v, want those of both scenarios", r.Journeys)
	}
	// The fourth iteration's first request is the seventh, unless the other scenario has
	// begun by then.
	feed, single := r.Journeys[0], r.Journeys[1]
	if feed.Iterations != 5 || single.Iterations != 5 || feed.BrokenOff+single.BrokenOff != 1 {
		t.Errorf("%d and %d iterations, %d and %d broke off; want 5 and 5, and 1", feed.Iterations, single.Iterations, feed.BrokenOff, single.BrokenOff)
	}
	if least := 3 * 20.0; feed.Duration.P50 < least || r.Steps[0].Response.P50 < 20 {
		t.Errorf("iterations took %.0f ms, requests %.0f; want %v at least of three times %v", feed.Duration.P50, r.Steps[0].Response.P50, least, slow)
	}
	if single.Duration.Max != r.Steps[2].Response.Max {
		t.Errorf("an iteration of one request took %v ms at most, and the request %v", single.Duration.Max, r.Steps[2].Response.Max)
	}
	seen := map[string]uint64{}
	for _, w := range windows {
		if len(w.Journeys) != 2 {
			t.Fatalf("a window has the journeys %+v, want those of both scenarios", w.Journeys)
		}
		for _, j := range w.Journeys {
			seen[j.Scenario] += j.Iterations
			if (j.Duration != "") != (j.Iterations > 0) {
				t.Errorf("a window has %+v", j)
			}
		}
	}
	if seen["feed"] != 5 || seen["alone"] != 5 {
		t.Errorf("the windows have %v iterations, want 5 and 5", seen)
	}
}

// TestJoinedLists are one value of the requests after them.
func TestJoinedLists(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asks []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/" {
			_, _ = io.WriteString(w, `{"ids": [1, "b", true], "none": []}`)
			return
		}
		asks = append(asks, r.FormValue("ids")+" "+r.FormValue("none")+" "+r.FormValue("first"))
	}))
	t.Cleanup(server.Close)
	list := asked("list", "/")
	list.Extract = map[string]load.Extract{"ids": {JSON: "ids", Join: ","}, "none": {JSON: "none", Join: ","}, "first": {JSON: "ids", Join: "&x="}}
	r, _ := mustRun(t, journeys(server.URL, 1, 1, []load.Step{list, asked("all", "/all?ids={ids}&none={none}&first={first}")}, nil))
	mu.Lock()
	defer mu.Unlock()
	if want := "1,b,true  1&x=b&x=true"; r.Failed > 0 || len(asks) != 1 || asks[0] != want {
		t.Errorf("the server was asked for %q, %v; want %q", asks, r.Errors, want)
	}
}

// TestJourneysFarAwayTakeWhatIsComputed: over a proxy that delays each direction, and lets so many bytes
// a second through to the user, no journey takes less than what is computed of its calls, of what they wait for and of
// their bytes. LARGE=1 has phones' networks.
func TestJourneysFarAwayTakeWhatIsComputed(t *testing.T) {
	t.Parallel()
	networks := []roundtrip.Network{{RTT: 10 * time.Millisecond, Bandwidth: math.Inf(1)}, {RTT: 4 * time.Millisecond, Bandwidth: 200_000}}
	if os.Getenv("LARGE") == "1" {
		networks = nil
		for _, rtt := range roundtrip.Phones() {
			networks = append(networks, roundtrip.Network{RTT: rtt, Bandwidth: 9e6 / 8})
		}
	}
	for name, journey := range map[string]struct {
		of    func() ([]load.Step, []load.Part)
		turns float64
	}{"265": {separate, 3 + 63*2}, "140": {bundled, 3 + 63*2}, "28": {batched, 3 + 7*2}} {
		for _, n := range networks {
			for protocol, start := range map[string]func(*httptest.Server){load.HTTP1: (*httptest.Server).Start, load.HTTP2: startPlainHTTP2} {
				t.Run(fmt.Sprintf("%s, %v, %v, %s", name, n.RTT, n.Bandwidth, protocol), func(t *testing.T) {
					t.Parallel()
					s := openPosts(t, start)
					steps, flow := journey.of()
					plan := journeys("http://"+loadtest.FarAway(t, s.Listener.Addr().String(), n.RTT, loadtest.NewLink(n.Bandwidth)), 1, 2, steps, flow)
					plan.Protocol = protocol
					r, _ := mustRun(t, plan)
					took, err := hdrhistogram.Decode([]byte(r.Journeys[0].Duration.Histogram))
					if err != nil || r.Iterations != 2 || r.Journeys[0].BrokenOff > 0 {
						t.Fatalf("%v, %d iterations, %v", err, r.Iterations, r.Errors)
					}
					var calls []roundtrip.Call
					for i := range r.Steps {
						s := &r.Steps[i]
						calls = append(calls, roundtrip.Call{PerJourney: float64(s.Requests) / 2, Bytes: float64(s.Received) / float64(s.Requests)})
					}
					n := n
					n.Shared = protocol == load.HTTP2
					computed := n.Duration(&plan.Scenarios[0], calls)
					if turns := time.Duration(journey.turns * float64(n.RTT)); computed < turns || math.IsInf(n.Bandwidth, 1) && computed != turns {
						t.Errorf("computed %v, and the round trips alone take %v", computed, turns)
					}
					least := time.Duration(took.Min()) * time.Microsecond
					t.Logf("computed %v, took %v", computed, least)
					if least < computed-computed/1000 {
						t.Errorf("a journey took %v, less than the %v that was computed", least, computed)
					}
				})
			}
		}
	}
}
