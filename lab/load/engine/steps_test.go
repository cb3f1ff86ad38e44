package engine

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/loadtest"
)

// shop is a server with a session: what it sells has to be looked up, and only
// who has logged in may buy.
type shop struct {
	*httptest.Server
	mu                      sync.Mutex
	seen                    []string
	logins, strangers, sold int
}

func openShop(tb testing.TB, start func(*httptest.Server)) *shop {
	tb.Helper()
	s := &shop{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.note(&s.logins, string(body))
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s3", Path: "/"})
		w.Header().Set("X-Token", "tok/en 1")
		fmt.Fprint(w, `{"user": {"id": 7, "tags": ["a b", "c"]}}`)
	})
	mux.HandleFunc("GET /items/", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("session"); err != nil || c.Value != "s3" {
			s.note(&s.strangers, r.RequestURI)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.note(&s.sold, r.RequestURI+" "+r.Header.Get("Authorization"))
		fmt.Fprint(w, "one for you")
	})
	s.Server = httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s.Server)
	tb.Cleanup(s.Close)
	return s
}

func (s *shop) note(count *int, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*count++
	if len(s.seen) < 100 {
		s.seen = append(s.seen, what)
	}
}

// shopping is a plan of two steps, the second of which needs what the first
// brought.
func shopping(url string) load.Plan {
	seven := "7"
	return load.Plan{
		Targets: []string{url}, Seed: 1, Timeout: time.Minute,
		Scenarios: []load.Scenario{{
			Name: "shop", Executor: load.SharedIterations, VUs: 3, Iterations: 20, Duration: 2 * time.Minute, GracefulStop: time.Minute,
			Feed: map[string]feed.Feed{"pin": {Sequential: &[2]int64{1, 1000}}},
			Steps: []load.Step{
				{
					Name:    "login",
					Request: load.Request{Method: "POST", Path: "/login", Body: `{"pin": {pin}}`},
					Extract: map[string]load.Extract{"user": {JSON: "user.id"}, "tag": {JSON: "user.tags.0"}, "token": {Header: "x-token"}},
					Checks: []load.Check{
						{Name: "status is 200", Status: []int{200}},
						{Name: "is user 7", JSON: "user.id", Equals: &seven},
						{Name: "has a name", JSON: "user.name"},
					},
				},
				{
					Name:    "buy",
					Request: load.Request{Method: "GET", Path: "/items/{user}/{tag}", Header: map[string]string{"Authorization": "Bearer {token}"}},
					Checks:  []load.Check{{Name: "sold", Contains: "for you"}},
				},
			},
		}},
	}
}

func TestStepsPassOnWhatTheyExtract(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, test := range map[string]struct {
		start  func(*httptest.Server)
		change func(*load.Plan)
	}{
		"http/1.1":                  {(*httptest.Server).Start, func(*load.Plan) {}},
		"http/1.1, two connections": {(*httptest.Server).Start, func(p *load.Plan) { p.Connections = 2 }},
		"two threads":               {(*httptest.Server).Start, func(p *load.Plan) { p.Threads = 2 }},
		"h2c": {func(s *httptest.Server) {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
		}, func(p *load.Plan) { p.Protocol = load.HTTP2 }},
		"https":                       {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS.CAFile = ca }},
		"https, one connection":       {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS.CAFile, p.Connections = ca, 1 }},
		"h2 over TLS":                 {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS.InsecureSkipVerify, p.Protocol = true, load.HTTP2 }},
		"h2 over TLS, one connection": {(*httptest.Server).StartTLS, func(p *load.Plan) { p.TLS.CAFile, p.Protocol, p.Connections = ca, load.HTTP2, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, test.start)
			if s.Certificate() != nil {
				writeCertificate(t, ca, s.Server)
			}
			plan := shopping(s.URL)
			test.change(&plan)
			r, _ := mustRun(t, plan)
			if r.Iterations != 20 || r.Requests != 40 || r.Failed > 0 || r.Status[200] != 40 {
				t.Fatalf("%d iterations, %d requests, statuses %v, errors %v; want 20 and 40, all 200", r.Iterations, r.Requests, r.Status, r.Errors)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.logins != 20 || s.sold != 20 || s.strangers != 0 {
				t.Errorf("%d logins, %d sold, %d without a cookie; want 20, 20, none", s.logins, s.sold, s.strangers)
			}
			if want := "/items/7/a%20b Bearer tok/en 1"; !slices.Contains(s.seen, want) {
				t.Errorf("the server saw %q, want %q among them", s.seen, want)
			}
			if want := `{"pin": 1}`; !slices.Contains(s.seen, want) {
				t.Errorf("the server saw %q, want %q among them", s.seen, want)
			}
			wantChecks(t, r, "status is 200 20/0", "is user 7 20/0", "has a name 0/20", "sold 20/0")
			if len(r.Steps) != 2 || r.Steps[0].Name != "login" || r.Steps[0].Requests != 20 || r.Steps[1].Requests != 20 {
				t.Errorf("steps %v, want login and buy with 20 requests each", r.Steps)
			}
			if r.Sent == 0 || r.Received == 0 {
				t.Errorf("%d bytes sent, %d received; want some", r.Sent, r.Received)
			}
		})
	}
}

func writeCertificate(tb testing.TB, path string, s *httptest.Server) {
	tb.Helper()
	if err := os.WriteFile(path, pemOf(s), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func wantChecks(tb testing.TB, r load.Result, want ...string) {
	tb.Helper()
	var got []string
	for _, c := range r.Checks {
		got = append(got, fmt.Sprintf("%s %d/%d", c.Name, c.Passes, c.Fails))
	}
	if !slices.Equal(got, want) {
		tb.Errorf("checks %q, want %q", got, want)
	}
}

func TestUntrustedCertificateIsAFailure(t *testing.T) {
	t.Parallel()
	s := openShop(t, (*httptest.Server).StartTLS)
	r, _ := mustRun(t, countedPlan(s.URL, 1, 3))
	if n := r.Errors[failure.TLS.String()].Count; n != 3 || n != r.Requests {
		t.Errorf("%d requests, errors %v; want all failed by tls", r.Requests, r.Errors)
	}
}

// TestMissingValueEndsTheIteration: what needs a value that did not come is not
// sent, and the request that should have brought it has failed.
func TestMissingValueEndsTheIteration(t *testing.T) {
	t.Parallel()
	s := openShop(t, (*httptest.Server).Start)
	plan := shopping(s.URL)
	plan.Scenarios[0].Steps[0].Extract["user"] = load.Extract{JSON: "user.nobody"}
	r, _ := mustRun(t, plan)
	e := r.Errors[failure.NoValue.String()]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Count != 20 || r.Iterations != 20 || r.Requests != 20 || s.sold > 0 || !strings.Contains(e.Example, "user.nobody") {
		t.Errorf("%d iterations, %d requests, errors %v, %d sold; want 20 failures and nothing sold", r.Iterations, r.Requests, r.Errors, s.sold)
	}
}

func TestWeightsShareIterations(t *testing.T) {
	t.Parallel()
	var common, rare atomic.Int64
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			if r.URL.Path == "/rare" {
				rare.Add(1)
			} else {
				common.Add(1)
			}
			c.send(okAnswer)
		}
	})
	plan := loadtest.ClosedPlan(server.url, 4, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations, s.Weighted = load.SharedIterations, 4000, true
	s.Steps = []load.Step{
		{Name: "common", Weight: 9, Request: load.Request{Method: "GET", Path: "/common"}},
		{Name: "rare", Weight: 1, Request: load.Request{Method: "GET", Path: "/rare"}},
	}
	r, _ := mustRun(t, plan)
	// 400 expected; five standard deviations of a binomial count are 95.
	if n := float64(rare.Load()); math.Abs(n-400) > 95 || r.Requests != 4000 || common.Load()+rare.Load() != 4000 {
		t.Errorf("%d common and %.0f rare of %d requests, want about 3600 and 400", common.Load(), n, r.Requests)
	}
	again, _ := mustRun(t, plan)
	if again.Steps[1].Requests != r.Steps[1].Requests {
		t.Errorf("%d rare, then %d with the same seed", r.Steps[1].Requests, again.Steps[1].Requests)
	}
}

func TestIterationsAreCounted(t *testing.T) {
	t.Parallel()
	url := serveOK(t).url
	for _, threads := range []int{1, 3} {
		for executor, want := range map[string]uint64{load.SharedIterations: 50, load.PerVUIterations: 350} {
			t.Run(fmt.Sprint(executor, " on ", threads), func(t *testing.T) {
				t.Parallel()
				plan := loadtest.ClosedPlan(url, 7, time.Minute)
				plan.Threads = threads
				plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = executor, 50
				begin := time.Now()
				r, _ := mustRun(t, plan)
				if r.Iterations != want || r.Requests != want || r.Aborted != "" {
					t.Errorf("%d iterations, %d requests, %q; want %d", r.Iterations, r.Requests, r.Aborted, want)
				}
				if took := time.Since(begin); took > 30*time.Second || r.Seconds() > 30 {
					t.Errorf("it took %v, and the result says %v s; want it over when the iterations are", took, r.Seconds())
				}
			})
		}
	}
}

func TestIterationsHaveATimeLimit(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(serveOK(t).url, 2, 3*time.Second)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.SharedIterations, 1_000_000_000
	r, _ := mustRun(t, plan)
	if r.Iterations == 0 || r.Seconds() < 3 || r.Seconds() > 30 { // a slow machine notices the end late
		t.Errorf("%d iterations in %v s, want some, and an end after 3 s", r.Iterations, r.Seconds())
	}
}

func TestThinkTimeKeepsUsersBusy(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(serveOK(t).url, 5, time.Second)
	plan.Scenarios[0].Steps[0].Think = [2]time.Duration{100 * time.Millisecond, 100 * time.Millisecond}
	r, _ := mustRun(t, plan)
	if r.Requests > 50 {
		t.Errorf("%d requests of 5 users who pause for 100 ms in a second, want at most 50", r.Requests)
	}
	plan = countedPlan(plan.Targets[0], 5, 3)
	plan.Scenarios[0].Steps[0].Think = [2]time.Duration{time.Second, time.Second}
	r, _ = mustRun(t, plan)
	if r.Requests != 15 || r.Seconds() < 3 {
		t.Errorf("%d requests in %v s of 5 users who pause three times for a second, want 15 in 3 s at least", r.Requests, r.Seconds())
	}
	if r.Service.P50 >= 1000 || r.Response.P50 >= 1000 {
		t.Errorf("response time p50 is %v ms: pauses are no part of it", r.Response.P50)
	}
}

func TestFeedsAreWalkedForEachUser(t *testing.T) {
	t.Parallel()
	rows := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(rows, []byte("name,city\nann,Ulm\nbob,Bern\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			mu.Lock()
			seen[r.RequestURI]++
			mu.Unlock()
			c.send(okAnswer)
		}
	})
	plan := loadtest.ClosedPlan(server.url, 3, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.PerVUIterations, 4
	s.Steps[0].Request.Path = "/{u.name}/{u.city}/{n}"
	s.Feed = map[string]feed.Feed{
		"u": {CSV: &feed.File{Path: rows}, PerVU: true},
		"n": {Sequential: &[2]int64{1, 4}, PerVU: true},
	}
	mustRun(t, plan)
	want := map[string]int{"/ann/Ulm/1": 3, "/bob/Bern/2": 3, "/ann/Ulm/3": 3, "/bob/Bern/4": 3}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestWindowStopsTheLoad(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(serveOK(t).url, 50, time.Minute, 10)
	begin := time.Now()
	var windows []load.Window
	var requests uint64
	r, err := Run(t.Context(), plan, func(w load.Window) string {
		windows = append(windows, w)
		if requests += w.Requests; requests < 20 { // a machine that stands still has less in its first
			return ""
		}
		return "seen enough"
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Aborted != "seen enough" || r.Seconds() > 10 || time.Since(begin) > 10*time.Second || r.Requests < 20 {
		t.Errorf("aborted %q after %v s with %d requests; want it stopped after the first window that has seen 20", r.Aborted, r.Seconds(), r.Requests)
	}
	loadtest.CheckSums(t, plan, r, windows)
}

func TestReplayRepeatsALog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.log")
	var lines strings.Builder
	for i := range 40 {
		method := []string{"GET", "HEAD"}[i%2]
		fmt.Fprintf(&lines, "10.0.0.1 - - [21/Nov/2026:10:00:%02d +0000] \"%s /p/{x}?n=%d HTTP/1.1\" 200 5 \"-\" \"curl\"\n", i/10, method, i)
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			mu.Lock()
			seen = append(seen, r.Method+" "+r.RequestURI)
			mu.Unlock()
			if r.Method == http.MethodHead {
				c.send("HTTP/1.1 200 OK|Content-Length: 5||")
			} else {
				c.send(okAnswer)
			}
		}
	})
	for _, threads := range []int{1, 2} {
		mu.Lock()
		seen = nil
		mu.Unlock()
		plan := loadtest.OpenPlan(server.url, 0, 0, 20)
		plan.Threads = threads
		s := &plan.Scenarios[0]
		s.Executor, s.Steps, s.Log = load.Replay, nil, &load.AccessLog{Path: file, Speed: 4}
		r, _ := mustRun(t, plan)
		if r.Requests != 40 || r.Failed > 0 || math.Abs(r.Seconds()-1) > 0.01 {
			t.Errorf("%d requests, errors %v, in %v s; want 40 in 1 s", r.Requests, r.Errors, r.Seconds())
		}
		mu.Lock()
		for i := range 40 {
			if want := fmt.Sprintf("%s /p/{x}?n=%d", []string{"GET", "HEAD"}[i%2], i); !slices.Contains(seen, want) {
				t.Errorf("the server did not see %q of %q", want, seen)
				break
			}
		}
		mu.Unlock()
		if r.Steps[0].Requests != 20 || r.Steps[1].Requests != 20 {
			t.Errorf("steps %+v, want 20 GET and 20 HEAD", r.Steps)
		}
	}
}

// TestResultIsJSON: a Result crosses a pipe.
func TestResultIsJSON(t *testing.T) {
	t.Parallel()
	plan := shopping(openShop(t, (*httptest.Server).Start).URL)
	r, _ := mustRun(t, plan)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back load.Result
	if err := json.Unmarshal(data, &back); err != nil || back.Steps[0].Response.Histogram != r.Steps[0].Response.Histogram {
		t.Errorf("it came back as %+v, %v", back, err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	s := openShop(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
		s.StartTLS()
	})
	plan := countedPlan(s.URL, 1, 3)
	plan.TLS.InsecureSkipVerify = true
	r, _ := mustRun(t, plan)
	if r.Errors[failure.TLS.String()].Count != r.Requests || r.Requests != 3 {
		t.Errorf("%d requests, errors %v; want all failed by tls", r.Requests, r.Errors)
	}
}

// TestBytesAreCountedByStep: what goes over the wire for each step, to the byte, as
// the server sees it.
func TestBytesAreCountedByStep(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string][2]uint64{} // by path, what came and what went
	server := serveRaw(t, func(c *rawConn) {
		for {
			head, path := 0, ""
			for line := ""; line != "\r\n"; head += len(line) {
				var err error
				if line, err = c.in.ReadString('\n'); err != nil {
					return
				}
				if path == "" {
					path = strings.Fields(line)[1]
				}
			}
			answer := wire("HTTP/1.1 200 OK|Transfer-Encoding: chunked||" + fmt.Sprintf("%x|%s|0||", len(path), path))
			mu.Lock()
			n := seen[path]
			seen[path] = [2]uint64{n[0] + uint64(head), n[1] + uint64(len(answer))}
			mu.Unlock()
			_, _ = c.Write([]byte(answer))
		}
	})
	plan := loadtest.ClosedPlan(server.url, 2, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.SharedIterations, 10
	s.Steps = []load.Step{
		{Name: "short", Request: load.Request{Method: "GET", Path: "/a"}},
		{Name: "long", Request: load.Request{Method: "GET", Path: "/" + strings.Repeat("long", 100), Header: map[string]string{"Accept": "text/plain"}}},
	}
	r, _ := mustRun(t, plan)
	mu.Lock()
	defer mu.Unlock()
	for i := range s.Steps {
		got, want := r.Steps[i], seen[s.Steps[i].Request.Path]
		if got.Sent != want[0] || got.Received != want[1] || want[0] == 0 {
			t.Errorf("step %s: %d bytes sent, %d received; want the server's %d, %d", got.Name, got.Sent, got.Received, want[0], want[1])
		}
	}
}
