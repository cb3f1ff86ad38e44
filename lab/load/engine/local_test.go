package engine

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// callers is a server that notes the addresses that its requests come from.
type callers struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]bool
}

func (c *callers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[from.Addr().String()] = true
	w.WriteHeader(http.StatusNoContent)
}

func TestConnectionsComeFromLocalIPs(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*httptest.Server){
		"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &callers{seen: map[string]bool{}}
			c.Server = httptest.NewUnstartedServer(c)
			start(c.Server)
			defer c.Close()
			plan := loadtest.ClosedPlan(c.URL, 5, time.Minute)
			plan.TLS.InsecureSkipVerify = true
			plan.LocalIPs = []netip.Prefix{netip.MustParsePrefix("127.3.0.9/32"), netip.MustParsePrefix("127.4.0.2/31")}
			s := &plan.Scenarios[0]
			s.Executor, s.Iterations = load.PerVUIterations, 2
			mustRun(t, plan)
			want := []string{"127.3.0.9", "127.4.0.2", "127.4.0.3"}
			c.mu.Lock() // the last request may still be ending
			defer c.mu.Unlock()
			if got := slices.Sorted(maps.Keys(c.seen)); !slices.Equal(got, want) {
				t.Errorf("requests came from %v, want %v", got, want)
			}
		})
	}
}

func TestUnusableLocalIPIsAFailure(t *testing.T) {
	t.Parallel()
	c := &callers{seen: map[string]bool{}}
	c.Server = httptest.NewServer(c)
	defer c.Close()
	plan := loadtest.ClosedPlan(c.URL, 1, time.Minute)
	plan.LocalIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} // reserved for documentation
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.PerVUIterations, 1
	r, _ := mustRun(t, plan)
	if r.Failed != 1 || len(r.Errors) == 0 {
		t.Errorf("%d failed and errors %v, want one", r.Failed, r.Errors)
	}
}

func TestExpectedStatusesHaveNotFailed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, c := range []struct {
		expected []int
		failed   uint64
	}{{nil, 3}, {[]int{404}, 0}, {[]int{200, 404}, 0}, {[]int{200}, 3}} {
		plan := loadtest.ClosedPlan(server.URL, 1, time.Minute)
		s := &plan.Scenarios[0]
		s.Executor, s.Iterations = load.PerVUIterations, 3
		s.Steps[0].ExpectedStatuses = c.expected
		var inWindows uint64
		r, err := Run(t.Context(), plan, func(w load.Window) string {
			inWindows += w.Failed
			return ""
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed != c.failed || inWindows != c.failed || r.Status[404] != 3 {
			t.Errorf("expected %v: %d failed, %d in windows, statuses %v; want %d failed", c.expected, r.Failed, inWindows, r.Status, c.failed)
		}
	}
}
