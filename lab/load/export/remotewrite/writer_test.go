package remotewrite

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, address string, change func(*Config)) *Writer {
	t.Helper()
	cfg := DefaultConfig(address+"/api/v1/write", "r1")
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return w
}

func want(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestReceiverGetsEverything(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(_ int, request *http.Request) int {
		if request.Header.Get("X-Scope-Orgid") != "us" || request.URL.Path != "/api/v1/write" {
			return http.StatusUnauthorized
		}
		return http.StatusOK
	})
	w := open(t, r.URL, func(c *Config) {
		c.Labels = map[string]string{"team": "menu", "a": "b"}
		c.Header = map[string]string{"X-Scope-OrgID": "us"}
	})
	w.Add(windowAt(t, 0, 10, 10))
	w.Add(windowAt(t, 1, 20, 20, 20))
	w.Add(windowAt(t, 2)) // nothing ended
	if err := w.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	r.wantNoFaults(t)
	labels := []string{`job="loadstone"`, `run="r1"`, `team="menu"`, `a="b"`}
	for name, values := range map[string][]float64{
		"loadstone_http_reqs_total":           {0, 2, 5, 5},
		"loadstone_http_req_failed_total":     {0, 1, 2, 3},
		"loadstone_iterations_total":          {0, 5, 10, 15},
		"loadstone_late_total":                {0, 2, 4, 6},
		"loadstone_dropped_iterations_total":  {0, 3, 6, 9},
		"loadstone_checks_total":              {0, 6, 12, 18},
		"loadstone_check_fails_total":         {0, 1, 2, 3},
		"loadstone_data_sent_bytes_total":     {0, 100, 200, 300},
		"loadstone_data_received_bytes_total": {0, 200, 400, 600},
		"loadstone_in_flight":                 {4, 4, 4, -1},
		"loadstone_generator_busy_cores":      {0.25, 0.25, 0.25, -1},
		"loadstone_warmup":                    {1, 0, 0, -1},
	} {
		want(t, name, r.values(t, name, labels...), values)
	}
	want(t, "timeouts", r.values(t, "loadstone_http_req_errors_total", `kind="timeout"`), []float64{0, 1, 2, 3})
	want(t, "resets", r.values(t, "loadstone_http_req_errors_total", `kind="reset"`), []float64{0, 0, 0, 0})
	for _, name := range []string{"loadstone_http_req_duration_seconds", "loadstone_http_req_service_seconds"} {
		for _, q := range []string{"0.5", "0.95", "0.99"} {
			got := r.values(t, name, `quantile="`+q+`"`)
			if len(got) != 4 || got[0] < 0.01 || got[0] > 0.0101 || got[1] < 0.02 || got[1] > 0.0201 || got[2] != -1 || got[3] != -1 {
				t.Errorf("%s %s: got %v, want 10 ms, 20 ms, none and the end", name, q, got)
			}
		}
	}
}

func TestSampleTimesAreTheWindowsEnds(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := open(t, r.URL, nil)
	first := windowAt(t, 0, 1)
	w.Add(first)
	w.Add(first) // a clock that stands still must not cost the push
	if err := w.Close(t.Context()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	r.wantNoFaults(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	at := first.Start.UnixMilli()
	for key, samples := range r.series {
		if strings.Contains(key, "loadstone_http_reqs_total") {
			got := []int64{samples[0].at, samples[1].at, samples[2].at}
			if want := []int64{at, at + 1000, at + 1001}; !slices.Equal(got, want) {
				t.Errorf("got samples at %v, want %v", got, want)
			}
		}
	}
}

func TestSlowReceiverLosesTheOldest(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(push int, _ *http.Request) int {
		if push == 0 {
			close(entered)
			<-release
		}
		return http.StatusOK
	})
	w := open(t, r.URL, func(c *Config) { c.Queue = 3 })
	w.Add(windowAt(t, 0, 1))
	<-entered
	for second := 1; second <= 8; second++ { // never waits, though nothing is taken
		w.Add(windowAt(t, second, 1, 1))
	}
	close(release)
	err := w.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "5 of 9 windows were not delivered because it was too slow") {
		t.Errorf("got %v, want 5 of 9 windows missing", err)
	}
	r.wantNoFaults(t)
	want(t, "requests, none forgotten", r.values(t, "loadstone_http_reqs_total"), []float64{0, 1, 13, 15, 17})
}

func TestFailingReceiverIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(push int, _ *http.Request) int {
		if push == 0 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	w := open(t, r.URL, nil)
	w.Add(windowAt(t, 0, 1))
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	want(t, "requests", r.values(t, "loadstone_http_reqs_total"), []float64{0, 1})
}

func TestRefusalIsToldOnceAndClean(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(int, *http.Request) int { return http.StatusBadRequest })
	w := open(t, r.URL, nil)
	w.Add(windowAt(t, 0, 1))
	err := w.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1 of 1 windows were not delivered") ||
		!strings.Contains(err.Error(), "400 Bad Request: not now") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %q, want the count and the reason without control characters", err)
	}
	if got := r.pushes; got > 2 {
		t.Errorf("got %d pushes, want no repeats of what was refused", got)
	}
}

func TestReceiverThatIsGoneDisturbsNothing(t *testing.T) {
	t.Parallel()
	w := open(t, "http://127.0.0.1:1", func(c *Config) { c.Timeout = 10 * time.Second }) // a port that nobody is given
	for second := range 4 {
		w.Add(windowAt(t, second, 1))
	}
	err := w.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "4 of 4 windows were not delivered") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want 4 of 4 windows refused", err)
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	release := make(chan struct{})
	r := newReceiver(t, func(push int, _ *http.Request) int {
		if push == 0 {
			close(entered)
		}
		<-release
		return http.StatusOK
	})
	defer close(release)
	w := open(t, r.URL, func(c *Config) { c.Timeout = time.Hour })
	w.Add(windowAt(t, 0, 1))
	<-entered
	w.Add(windowAt(t, 1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "2 of 2 windows were not delivered") {
		t.Errorf("got %v, want 2 of 2 windows missing", err)
	}
	w.Add(windowAt(t, 2, 1)) // is nothing any more
	if again := w.Close(t.Context()); again == nil || again.Error() != err.Error() {
		t.Errorf("a second Close: got %v, want %v", again, err)
	}
}

// What the receiver said last is why, and not that there was no more time.
func TestTheLastReasonIsTold(t *testing.T) {
	t.Parallel()
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}))
	defer r.Close()
	w := open(t, r.URL, func(c *Config) { c.Timeout = 5 * time.Second })
	w.Add(windowAt(t, 0, 1))
	if err := w.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: not now") {
		t.Errorf("got %v, want what the receiver said", err)
	}
}

func TestWithoutWindowsNothingIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := open(t, r.URL, nil)
	if err := w.Close(t.Context()); err != nil || r.pushes != 0 {
		t.Errorf("got %d pushes and %v, want none", r.pushes, err)
	}
}

func TestUnreadableLatenciesAreToldAndTheRestIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := open(t, r.URL, nil)
	window := windowAt(t, 0, 1)
	window.Response = "no histogram"
	w.Add(window)
	if err := w.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "read the latencies of a window") {
		t.Errorf("got %v, want it told", err)
	}
	want(t, "requests", r.values(t, "loadstone_http_reqs_total"), []float64{0, 1})
}

func TestHeadersFollowNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t, nil)
	r := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer r.Close()
	w := open(t, r.URL, func(c *Config) { c.Header = map[string]string{"Authorization": "Bearer secret"} })
	w.Add(windowAt(t, 0, 1))
	if err := w.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "307") || elsewhere.pushes != 0 {
		t.Errorf("got %v and %d pushes elsewhere, want a 307 and none", err, elsewhere.pushes)
	}
}

func TestBadConfigurationIsExplained(t *testing.T) {
	t.Parallel()
	good := DefaultConfig("http://127.0.0.1:9090/api/v1/write", "r1")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no URL":          {func(c *Config) { c.URL = "" }, "is no remote write URL; write the receiver's whole URL, such as http"},
		"another scheme":  {func(c *Config) { c.URL = "ftp://a/b" }, "is no remote write URL"},
		"no path":         {func(c *Config) { c.URL = "http://127.0.0.1:9090/" }, "has no path"},
		"unreadable":      {func(c *Config) { c.URL = "http://u:secret@a b/x" }, "cannot be read"},
		"no time":         {func(c *Config) { c.Timeout = 0 }, "write a timeout such as 10s"},
		"no queue":        {func(c *Config) { c.Queue = 0 }, "write a number such as 120"},
		"our label":       {func(c *Config) { c.Labels = map[string]string{"run": "x"} }, "the label run is Loadstone's own"},
		"no label":        {func(c *Config) { c.Labels = map[string]string{"a-b": "x"} }, `"a-b" is no name for a label`},
		"internal label":  {func(c *Config) { c.Labels = map[string]string{"__name__": "x"} }, "is no name for a label"},
		"value not UTF-8": {func(c *Config) { c.Labels = map[string]string{"a": "\xff"} }, "is not UTF-8"},
		"run not UTF-8":   {func(c *Config) { c.Run = "\xff" }, "is not UTF-8"},
	} {
		cfg := good
		c.change(&cfg)
		w, err := New(cfg)
		if err == nil {
			t.Errorf("%s: New took it", name)
			_ = w.Close(t.Context())
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %q, want it to say %q", name, err, c.want)
		}
	}
	if err := good.Validate(); err != nil {
		t.Errorf("the default: got %v, want it good", err)
	}
}
