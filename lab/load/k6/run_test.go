package k6

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/block/servertest"
	"loadstone/lab/load"
)

// sums adds up windows, to compare them with the result.
type sums struct {
	windows                                              int
	requests, failed, dropped, iterations, checks, fails uint64
	sent, received, inHistograms                         uint64
}

func (s *sums) add(tb testing.TB, w load.Window) {
	tb.Helper()
	s.windows++
	s.requests += w.Requests
	s.failed += w.Failed
	s.dropped += w.Dropped
	s.iterations += w.Iterations
	s.checks += w.Checks
	s.fails += w.CheckFails
	s.sent += w.Sent
	s.received += w.Received
	h, err := hdrhistogram.Decode([]byte(w.Service))
	if err != nil {
		tb.Fatal(err)
	}
	s.inHistograms += uint64(h.TotalCount())
	if w.Seconds <= 0 || w.Seconds > 1 || w.Response != w.Service {
		tb.Errorf("a window of %v s, response and service the same: %t; want at most 1, true", w.Seconds, w.Response == w.Service)
	}
}

// TestReplay compares with what k6 itself said at the end of the recording,
// less the one request of its setup.
func TestReplay(t *testing.T) {
	t.Parallel()
	config, _ := playing(t, `replay; say time="x" level=error msg="thresholds on metrics 'http_req_duration' have been crossed"; exit 99`)
	var got sums
	r, err := Run(t.Context(), config, func(w load.Window) string { got.add(t, w); return "" })
	if err != nil {
		t.Fatal(err)
	}
	if want := (sums{windows: 2, requests: 20, failed: 12, dropped: 7, iterations: 12, checks: 16, fails: 8, sent: 940, received: 6184, inHistograms: 20}); got != want {
		t.Errorf("windows: got %+v, want %+v", got, want)
	}
	if want := "thresholds on metrics 'http_req_duration' have been crossed"; r.Failed != want {
		t.Errorf("failed: got %q, want %q", r.Failed, want)
	}
	if len(r.Notes) != 1 || r.Notes[0] != ServiceTimeOnly {
		t.Errorf("notes: got %q, want that it is service time only", r.Notes)
	}
	checkRecording(t, r.Result)
}

func checkRecording(t *testing.T, r load.Result) {
	t.Helper()
	if r.Requests != 20 || r.Failed != 12 || r.Iterations != 12 || r.Dropped != 7 || r.Offered != 19 || r.MaxInFlight != 3 {
		t.Errorf("got %d requests, %d failed, %d iterations, %d dropped of %d, %d users; want 20, 12, 12, 7, 19, 3",
			r.Requests, r.Failed, r.Iterations, r.Dropped, r.Offered, r.MaxInFlight)
	}
	if r.Status[200] != 8 || r.Status[404] != 4 || len(r.Status) != 2 {
		t.Errorf("status: got %v, want 8 of 200 and 4 of 404", r.Status)
	}
	e := r.Errors["refused"]
	if e.Count != 8 || !strings.Contains(e.Example, "connection refused") || len(r.Errors) != 1 {
		t.Errorf("errors: got %v, want 8 refused", r.Errors)
	}
	want := map[string]uint64{"users/look up": 8, "users/refused": 8, "arrivals/missing": 4}
	for _, s := range r.Steps {
		if want[s.Scenario+"/"+s.Name] != s.Requests {
			t.Errorf("step %s of %s: got %d requests, want %v", s.Name, s.Scenario, s.Requests, want)
		}
	}
	if len(r.Steps) != len(want) {
		t.Errorf("got %d steps, want %d", len(r.Steps), len(want))
	}
	if j := r.Journeys; len(j) != 2 || j[0].Scenario != "arrivals" || j[1].Scenario != "users" || j[0].Iterations != 1 || math.Abs(j[1].Duration.Max-407) > 0.1 {
		t.Errorf("journeys: got %+v, want those of which the recording has the durations, one of each scenario", j)
	}
	if c := r.Checks; len(c) != 2 || c[0] != (load.CheckResult{Scenario: "users", Name: "is 200", Passes: 8}) || c[1].Fails != 8 {
		t.Errorf("checks: got %+v", c)
	}
	if r.Service.Max < 3.0 || r.Service.Max > 3.02 || r.Response != r.Service || r.Seconds() < 1 || r.Seconds() > 2 {
		t.Errorf("service: got max %v ms over %v s; want 3.01 over 1.6", r.Service.Max, r.Seconds())
	}
	if r.Generator.CPUSeconds <= 0 || r.Generator.Busy <= 0 {
		t.Errorf("generator: got %+v, want what it used", r.Generator)
	}
}

func TestGarbageIsCountedAndSkipped(t *testing.T) {
	t.Parallel()
	config, _ := playing(t, "garbage; replay; garbage")
	r, err := Run(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Notes) != 2 || !strings.Contains(r.Notes[1], `8 lines of k6's output could not be read`) || !strings.Contains(r.Notes[1], `"nonsense"`) {
		t.Errorf("notes: got %q, want 8 lines, the first nonsense", r.Notes)
	}
	checkRecording(t, r.Result)
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		role    string
		want    string // in the error; none if empty
		failed  string // in Report.Failed
		aborted string // in Result.Aborted
	}{
		{role: "replay"},
		{role: "half; die", want: "killed by signal 9"},
		{role: "say one; say two; exit 107", want: "the script threw an exception (exit status 107); it last wrote:\n  one\n  two"},
		{role: "exit 108", want: "called test.abort() (exit status 108); it wrote nothing"},
		{role: "exit 104", want: "options are not valid"},
		{role: "exit 105", want: "interrupted from outside"},
		{role: "exit 255", want: "could not load the script"},
		{role: "exit 42", want: "it failed (exit status 42)"},
		{role: "exit 99", failed: "thresholds were crossed"},
		{role: "exit 110", failed: "marked the test as failed"},
		{
			role:   `say level=error msg="thresholds on metrics 'a' were crossed; at least one has abortOnFail enabled"; exit 99`,
			failed: "'a' were crossed, at least", aborted: "abortOnFail",
		},
	} {
		// The role's own separator is not in it.
		config, _ := playing(t, strings.Replace(test.role, "crossed;", "crossed,", 1))
		r, err := Run(t.Context(), config, nil)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.role, err, test.want)
		}
		if (r.Failed != "") != (test.failed != "") || !strings.Contains(r.Failed, test.failed) || !strings.Contains(r.Result.Aborted, test.aborted) {
			t.Errorf("%s: got failed %q, aborted %q; want %q, %q", test.role, r.Failed, r.Result.Aborted, test.failed, test.aborted)
		}
	}
}

func TestCrashKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	config, _ := playing(t, "half; die")
	r, err := Run(t.Context(), config, nil)
	if err == nil || r.Result.Requests == 0 || r.Result.Requests >= 20 {
		t.Errorf("got %d requests, %v; want a part of them, and an error", r.Result.Requests, err)
	}
}

func TestStopEndsIt(t *testing.T) {
	t.Parallel()
	config, _ := playing(t, "seconds 3; interrupted; exit 105")
	calls := 0
	r, err := Run(t.Context(), config, func(load.Window) string { calls++; return "enough" })
	if err != nil || r.Result.Aborted != "enough" || calls != 1 || r.Result.Requests != 30 {
		t.Errorf("got %v, aborted %q after %d calls, %d requests; want nil, enough, 1, all 30 that it wrote", err, r.Result.Aborted, calls, r.Result.Requests)
	}
}

// TestHanging: one that does not heed SIGINT is killed, and so is its child.
func TestHanging(t *testing.T) {
	t.Parallel()
	config, _ := playing(t, "child; seconds 3; hang")
	r, err := run(t.Context(), config, 50*time.Millisecond, func(load.Window) string { return "enough" })
	if err != nil || r.Result.Aborted != "enough" || len(r.Notes) != 2 || !strings.Contains(r.Notes[1], "was killed") {
		t.Errorf("got %v, aborted %q, notes %q; want it killed", err, r.Result.Aborted, r.Notes)
	}
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = run(ctx, config, 50*time.Millisecond, func(load.Window) string { cancel(why); return "" })
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if _, err = Run(ctx, config, nil); !errors.Is(err, why) {
		t.Errorf("with a context that has ended: got %v, want %v", err, why)
	}
}

// TestNothingIsLeftBehind: whatever k6 started in its group is gone when Run
// returns, although it holds k6's outputs open.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	config, log := playing(t, "child; exit 0")
	if _, err := Run(t.Context(), config, nil); err != nil {
		t.Fatal(err)
	}
	pid, found := strings.CutPrefix(strings.TrimSpace(log.String()), "child ")
	if !found {
		t.Fatalf("got %q, want the id of its child", log.String())
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		// Nobody may wait for it any more but whoever inherits orphans: a zombie
		// is gone.
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is still there: %s", pid, stat)
		}
	}
}

func TestVariablesAndLog(t *testing.T) {
	t.Parallel()
	config, log := playing(t, "print at; say oh")
	config.Target, config.Env["MINE"], config.Env["TARGET"] = "http://127.0.0.1:80", "yes", "other"
	if _, err := Run(t.Context(), config, nil); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "at http://127.0.0.1:80 other yes\n") || !strings.Contains(got, "oh\n") {
		t.Errorf("got %q, want the variables, and both outputs in the log", got)
	}
}

func TestWithoutTheProgram(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Config{Binary: "/no/such/k6", Script: "x", Log: io.Discard}, nil); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	if _, err := Find(func(string) (string, error) { return "", exec.ErrNotFound }); !errors.Is(err, exec.ErrNotFound) ||
		!strings.Contains(err.Error(), "go install go.k6.io/k6@"+Version) {
		t.Errorf("got %v, want how to get it", err)
	}
	if path, err := Find(func(name string) (string, error) { return "/bin/" + name, nil }); err != nil || path != "/bin/k6" {
		t.Errorf("got %q, %v; want /bin/k6", path, err)
	}
}

// realK6 finds k6 for a large test. The others have what it wrote once: a version that
// writes something else needs a new recording, and the large ones tell.
func realK6(t *testing.T) string {
	t.Helper()
	servertest.Large(t)
	path, err := Find(exec.LookPath)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRealK6 has the real program carry out the script of the recording.
func TestRealK6(t *testing.T) {
	path := realK6(t)
	var asked, setups atomic.Uint64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/setup":
			setups.Add(1)
			return
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		}
		asked.Add(1)
		_, _ = w.Write(make([]byte, 400))
	}))
	defer server.Close()
	var log strings.Builder
	var got sums
	config := Config{Binary: path, Script: "tiny.js", Dir: "testdata", Target: server.URL, Log: &log}
	r, err := Run(t.Context(), config, func(w load.Window) string { got.add(t, w); return "" })
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	res := r.Result
	// Eight requests are to a port where nobody listens.
	if res.Requests != asked.Load()+8 || res.Errors["refused"].Count != 8 || setups.Load() != 1 || res.Status[200] != 8 {
		t.Errorf("got %d requests, errors %v, status %v; the server had %d of them and %d setups", res.Requests, res.Errors, res.Status, asked.Load(), setups.Load())
	}
	if got.requests != res.Requests || got.failed != res.Failed || got.iterations != res.Iterations || got.dropped != res.Dropped || got.dropped == 0 {
		t.Errorf("the windows add up to %+v, want the result's figures, with some dropped: %+v", got, res)
	}
	if !strings.Contains(r.Failed, "http_req_duration") || res.Generator.CPUSeconds <= 0 || len(r.Notes) != 1 {
		t.Errorf("got failed %q, generator %+v, notes %q; want its threshold crossed, CPU time, one note", r.Failed, res.Generator, r.Notes)
	}
}

// TestRealK6Stops: the real program ends in order when a window says so.
func TestRealK6Stops(t *testing.T) {
	path := realK6(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	script := t.TempDir() + "/long.js"
	if err := os.WriteFile(script, []byte(`import http from 'k6/http';
export const options = { vus: 1, duration: '10m' };
export default function () { http.get(__ENV.BASE_URL); }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	config := Config{Binary: path, Script: script, Target: server.URL, Log: &log}
	r, err := Run(t.Context(), config, func(load.Window) string { return "enough" })
	if err != nil || r.Result.Aborted != "enough" || r.Result.Status[404] == 0 || len(r.Notes) != 1 {
		t.Errorf("got %v, aborted %q, status %v, notes %q; want an orderly end\n%s", err, r.Result.Aborted, r.Result.Status, r.Notes, log.String())
	}
	config.Script = "nosuch.js"
	if _, err = Run(t.Context(), config, nil); err == nil || !strings.Contains(err.Error(), "nosuch.js") {
		t.Errorf("with no such script: got %v, want its name", err)
	}
}
