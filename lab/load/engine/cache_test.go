package engine

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// tagged is a server whose answers can be kept, by path; it counts what it sends.
type tagged struct {
	*httptest.Server
	mu      sync.Mutex
	full    map[string]int // answers of status 200, by path
	same    map[string]int // of status 304
	version string
}

func openTagged(tb testing.TB, h2c bool) *tagged {
	tb.Helper()
	s := &tagged{full: map[string]int{}, same: map[string]int{}, version: "1"}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if h2c {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	}
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

func (s *tagged) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := fmt.Sprintf("%q", s.version+r.Header.Get("Accept-Language"))
	h := w.Header()
	switch strings.Split(r.URL.Path, "/")[1] {
	case "fresh":
		h.Set("Cache-Control", "public, max-age=3600")
	case "tag":
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
	case "expires":
		h.Set("Expires", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	case "old":
		h.Set("Cache-Control", "max-age=60")
		h.Set("Age", "60")
	case "vary":
		h.Set("Cache-Control", "max-age=60")
		h.Set("Vary", "Accept-Language")
	case "any":
		h.Set("Cache-Control", "max-age=60")
		h.Set("Vary", "*")
	case "renewed": // the 304 says more than the answer did
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		h.Set("Age", "60")
		h.Set("X-Round", "first")
		if r.Header.Get("If-None-Match") == tag {
			h.Del("Age")
			h.Set("Cache-Control", "max-age=3600")
			h.Set("X-Round", "second")
		}
	case "withdrawn":
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			h.Set("Cache-Control", "no-store")
		}
	case "nothing":
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache, max-age=soon, no-store, must-revalidate")
	case "never":
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-store, max-age=60")
	}
	if r.Header.Get("If-None-Match") == tag {
		s.same[r.URL.Path]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.full[r.URL.Path]++
	_, _ = fmt.Fprintf(w, `{"ids": ["a", "b"], "text": %q}`, strings.Repeat("x", 1000))
}

// sent returns one of the two counts; requests may be under way.
func (s *tagged) sent(of *map[string]int) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(*of)
}

func (s *tagged) count(of *map[string]int, path string) int { return s.sent(of)[path] }

// TestCacheIsAskedFirst: what is fresh is not asked for, what has a validator is asked
// about, and steps see the answer all the same.
func TestCacheIsAskedFirst(t *testing.T) {
	t.Parallel()
	const users, each = 3, 10
	for path, want := range map[string]struct{ full, same int }{
		"/fresh": {users, 0}, "/expires": {users, 0}, "/vary": {users, 0}, "/tag": {users, users * (each - 1)},
		"/none": {users * each, 0}, "/never": {users * each, 0}, "/old": {users * each, 0}, "/any": {users * each, 0},
		"/nothing": {users * each, 0}, "/renewed": {users, users},
	} {
		for _, protocol := range []string{load.HTTP1, load.HTTP2} {
			t.Run(path[1:]+", "+protocol, func(t *testing.T) {
				t.Parallel()
				s := openTagged(t, protocol == load.HTTP2)
				first := asked("first", path)
				first.Extract = map[string]load.Extract{"ids": {JSON: "ids"}}
				first.Checks = []load.Check{{Name: "ok", Status: []int{200}}, {Name: "text", JSON: "text"}}
				first.ExpectedStatuses = []int{200}
				plan := journeys(s.URL, users, each, []load.Step{first, asked("item", "/none/{id}")},
					[]load.Part{{Step: 0}, {ForEach: "ids", As: "id", Parallel: 2, Parts: []load.Part{{Step: 1}}}})
				plan.Protocol, plan.Scenarios[0].CacheBytes = protocol, 1<<20
				r, windows := mustRun(t, plan)
				loadtest.CheckSums(t, plan, r, windows)
				if s.count(&s.full, path) != want.full || s.count(&s.same, path) != want.same {
					t.Errorf("the server answered %d in full and %d times that nothing has changed; want %d and %d", s.count(&s.full, path), s.count(&s.same, path), want.full, want.same)
				}
				if r.Iterations != users*each || r.Failed > 0 || r.Journeys[0].BrokenOff > 0 || r.Steps[1].Requests != 2*users*each {
					t.Errorf("%d iterations, %d failed, %v, %d items; want %d, none and two items each", r.Iterations, r.Failed, r.Errors, r.Steps[1].Requests, users*each)
				}
				for _, c := range r.Checks {
					if c.Passes != users*each || c.Fails > 0 {
						t.Errorf("check %s held %d times and failed %d; want %d and 0", c.Name, c.Passes, c.Fails, users*each)
					}
				}
				c := r.Caches[0]
				if got := c.Hits + c.Revalidations + c.Fetched; got != 3*users*each || c.Revalidations != uint64(want.same) || c.Fetched != uint64(want.full)+2*users*each {
					t.Errorf("%+v of %d lookups; want %d hits", c, 3*users*each, users*each-want.full-want.same)
				}
				if kept := want.full == users; kept != (c.HeldBytes > 1000*users) || kept != (c.LargestBytes > 1000) {
					t.Errorf("the caches hold %d bytes, the largest %d", c.HeldBytes, c.LargestBytes)
				}
			})
		}
	}
}

// TestCacheIsBounded: the answers that were used last stay, as many as fit.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	s := openTagged(t, false)
	var steps []load.Step
	for _, name := range []string{"a", "b", "a", "c", "a", "b"} {
		steps = append(steps, asked(fmt.Sprintf("%s%d", name, len(steps)), "/fresh/"+name))
	}
	plan := journeys(s.URL, 1, 1, steps, nil)
	plan.Scenarios[0].CacheBytes = 2800 // of answers of about 1.2 kB each
	r, _ := mustRun(t, plan)
	if s.count(&s.full, "/fresh/a") != 1 || s.count(&s.full, "/fresh/b") != 2 || s.count(&s.full, "/fresh/c") != 1 {
		t.Errorf("the server answered %v; want b twice, which c displaced", s.sent(&s.full))
	}
	if c := r.Caches[0]; c.Hits != 2 || c.LargestBytes > 2800 || c.HeldBytes > c.LargestBytes {
		t.Errorf("%+v; want 2 hits, and at most 2800 bytes", c)
	}
	plan.Scenarios[0].CacheBytes = 500
	if r, _ = mustRun(t, plan); r.Requests != 6 || r.Caches[0].HeldBytes != 0 {
		t.Errorf("%d requests, %+v; want 6, for no answer fits", r.Requests, r.Caches[0])
	}
}

// TestCacheKeepsVariantsApart, and forgets what was written to.
func TestCacheKeepsVariantsApart(t *testing.T) {
	t.Parallel()
	s := openTagged(t, false)
	in := func(name, language string) load.Step {
		step := asked(name, "/vary/a")
		step.Request.Header = map[string]string{"Accept-Language": language}
		return step
	}
	write := load.Step{Name: "write", Request: load.Request{Method: "POST", Path: "/fresh/a", Body: "x"}}
	r, _ := mustRun(t, func() load.Plan {
		p := journeys(s.URL, 1, 1, []load.Step{
			in("nl", "nl"), in("fy", "fy"), in("fy again", "fy"), asked("before", "/fresh/a"), write, asked("after", "/fresh/a"),
		}, nil)
		p.Scenarios[0].CacheBytes = 1 << 20
		return p
	}())
	if s.count(&s.full, "/vary/a") != 2 || s.count(&s.full, "/fresh/a") != 3 || r.Caches[0].Hits != 1 {
		t.Errorf("the server answered %v, %+v; want one hit: the second in one language", s.sent(&s.full), r.Caches[0])
	}
}

// TestUsersWhoNeedNothing do not keep the event loop from ending.
func TestUsersWhoNeedNothing(t *testing.T) {
	t.Parallel()
	s := openTagged(t, false)
	plan := loadtest.ClosedPlan(s.URL, 4, 200*time.Millisecond)
	plan.Scenarios[0].Steps[0].Request.Path = "/fresh"
	plan.Scenarios[0].CacheBytes = 1 << 20
	r, _ := mustRun(t, plan)
	before := s.count(&s.full, "/fresh")
	if before > 4 || r.Caches[0].Hits+uint64(before) != r.Iterations {
		t.Errorf("the server answered %d, %d iterations, %+v; want one for each user, and hits", before, r.Iterations, r.Caches[0])
	}
	// In so short a time there may have been none.
	plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations, plan.Scenarios[0].Duration = load.PerVUIterations, 1000, time.Minute
	r, _ = mustRun(t, plan)
	if got := s.count(&s.full, "/fresh") - before; got != 4 || r.Caches[0].Hits != 4*999 || r.Iterations != 4*1000 {
		t.Errorf("the server answered %d, %d iterations, %+v; want an answer for each user, and 999 hits", got, r.Iterations, r.Caches[0])
	}
}

// TestCacheKeepsHostsApart: they share paths, not answers.
func TestCacheKeepsHostsApart(t *testing.T) {
	t.Parallel()
	s := openTagged(t, false)
	at := func(name, host string) load.Step {
		step := asked(name, "/fresh")
		step.Request.Header = map[string]string{"Host": host}
		return step
	}
	plan := journeys(s.URL, 1, 2, []load.Step{at("a", "a.test"), at("b", "b.test")}, nil)
	plan.Scenarios[0].CacheBytes = 1 << 20
	if r, _ := mustRun(t, plan); s.count(&s.full, "/fresh") != 2 || r.Caches[0].Hits != 2 {
		t.Errorf("the server answered %v, %+v; want once for each host", s.sent(&s.full), r.Caches[0])
	}
}

// TestRevalidationUpdatesHeaders: steps see those of the 304, and one that withdraws the
// answer is obeyed.
func TestRevalidationUpdatesHeaders(t *testing.T) {
	t.Parallel()
	s := openTagged(t, false)
	step := asked("renewed", "/renewed")
	step.Extract = map[string]load.Extract{"round": {Header: "X-Round"}}
	plan := journeys(s.URL, 1, 2, []load.Step{step, asked("seen", "/seen/{round}")}, nil)
	plan.Scenarios[0].CacheBytes = 1 << 20
	mustRun(t, plan)
	if s.count(&s.full, "/seen/first") != 1 || s.count(&s.full, "/seen/second") != 1 {
		t.Errorf("the server answered %v; want the header of the answer, and then that of the 304", s.sent(&s.full))
	}
	plan = journeys(s.URL, 1, 4, []load.Step{asked("withdrawn", "/withdrawn")}, nil)
	plan.Scenarios[0].CacheBytes = 1 << 20
	if r, _ := mustRun(t, plan); s.count(&s.full, "/withdrawn") != 2 || s.count(&s.same, "/withdrawn") != 2 || r.Caches[0].HeldBytes != 0 {
		t.Errorf("the server answered %v and %v, %+v; want each other time in full, and nothing kept", s.sent(&s.full), s.sent(&s.same), r.Caches[0])
	}
}

// TestStaleWhenItIsUsed: what was fresh at an iteration's time is not when it begins late.
func TestStaleWhenItIsUsed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fresh" {
			w.Header().Set("Cache-Control", "max-age=1")
			return
		}
		time.Sleep(1100 * time.Millisecond)
	}))
	t.Cleanup(s.Close)
	plan := loadtest.OpenPlan(s.URL, 20, 100*time.Millisecond, 1)
	sc := &plan.Scenarios[0]
	sc.Steps, sc.Flow = []load.Step{asked("fresh", "/fresh"), asked("slow", "/slow")}, []load.Part{{Step: 0}, {Step: 1}}
	sc.Arrivals, sc.CacheBytes, sc.GracefulStop = load.Uniform, 1<<20, time.Minute
	if r, _ := mustRun(t, plan); r.Iterations != 2 || r.Caches[0].Hits > 0 {
		t.Errorf("%d iterations, %+v; want 2 without a hit", r.Iterations, r.Caches[0])
	}
}

// TestHitsDoNotHideWaiting: an iteration that waited for the only user has that in the
// response time of its first request, be it after one that the user's cache answered.
func TestHitsDoNotHideWaiting(t *testing.T) {
	t.Parallel()
	const slow, n = 50 * time.Millisecond, 20
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fresh" {
			w.Header().Set("Cache-Control", "max-age=3600")
			return
		}
		time.Sleep(slow)
	}))
	t.Cleanup(s.Close)
	for _, parallel := range []int{0, 1} {
		plan := loadtest.OpenPlan(s.URL, 100, 200*time.Millisecond, 1)
		sc := &plan.Scenarios[0]
		sc.Steps = []load.Step{asked("fresh", "/fresh"), asked("slow", "/slow")}
		sc.Flow = []load.Part{{Step: 0}, {Repeat: 1, Parallel: parallel, Parts: []load.Part{{Step: 1}}}}
		sc.Arrivals, sc.CacheBytes, sc.GracefulStop = load.Uniform, 1<<20, time.Minute
		r, _ := mustRun(t, plan)
		if got := r.Steps[1].Response.Max; r.Iterations < n-1 || got < 600 { // the last begins 750 ms late, at the least
			t.Errorf("parallel %d: %d iterations; the slowest request took %v ms with its wait; want 20, 600 ms", parallel, r.Iterations, got)
		}
		if r.Waited < n/2 {
			t.Errorf("parallel %d: %d requests waited for a user; want nearly all of %d", parallel, r.Waited, n)
		}
	}
}
