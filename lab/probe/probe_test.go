package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/lab/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// self is this machine with this process.
func self() host.Host {
	return host.NewLocal(func() []host.Target { return []host.Target{{Name: "self-1", PID: os.Getpid()}} })
}

// Run watches this very process while it burns some CPU.
func TestRunWatches(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE cache_hits_total counter\ncache_hits_total 3\n# TYPE cache_misses_total counter\ncache_misses_total 1\n")
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var samples []host.Sample
	var scrapes []Scrape
	err := Run(ctx, Config{
		Hosts: []host.Host{self()}, Endpoints: []Endpoint{{Instance: "self-1", URL: func() string { return srv.URL }}},
		Interval: 10 * time.Millisecond, MetricsInterval: 10 * time.Millisecond,
		Write: func(v any) error {
			switch v := v.(type) {
			case *host.Sample:
				samples = append(samples, *v)
			case *Scrape:
				scrapes = append(scrapes, *v)
			}
			for i := range 1_000_000 {
				_ = i
			}
			if len(samples) > 20 && len(scrapes) > 2 {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 20 || len(scrapes) < 3 {
		t.Fatalf("%d samples and %d scrapes before the deadline", len(samples), len(scrapes))
	}
	last := samples[len(samples)-1]
	if last.Instances[0].CPU <= 0 || last.Instances[0].Memory == 0 || last.MachineTotal <= 0 || last.Self <= 0 {
		t.Errorf("nothing was measured: %+v", last)
	}
	if got := scrapes[0].Values["cache_hits_total"]; got != 3 {
		t.Errorf("scraped %v, want 3", got)
	}
}

func TestRunFailsOnWhatItCannotRead(t *testing.T) {
	err := Run(t.Context(), Config{
		Hosts: []host.Host{host.NewLocal(func() []host.Target { return []host.Target{{Name: "gone-1", PID: 1 << 30}} })}, Interval: time.Millisecond, MetricsInterval: time.Millisecond,
		Write: func(any) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), "gone-1") {
		t.Errorf("got %v, want an error that names gone-1", err)
	}
}

func TestRunFailsWhenItCannotWrite(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := Run(ctx, Config{
		Hosts: []host.Host{self()}, Interval: time.Millisecond, MetricsInterval: time.Millisecond,
		Write: func(any) error { stop(); return os.ErrClosed },
	})
	if err == nil {
		t.Error("no error although nothing could be kept")
	}
}

func TestParse(t *testing.T) {
	got, err := parse(strings.NewReader(`# TYPE a_total counter
a_total{code="200"} 7
# TYPE g gauge
g -1.5
# TYPE h histogram
h_bucket{le="1"} 2
h_bucket{le="+Inf"} 3
h_sum 4.5
h_count 3
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{`a_total{code="200"}`: 7, "g": -1.5, "h_sum": 4.5, "h_count": 3} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %v, want four values: buckets are left out", got)
	}
	for _, bad := range []string{"", "{", "a b c d"} {
		if got, err := parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

// What is no number is not left out: a sum without it would be taken for the whole.
func TestWhatIsNoNumberIsKept(t *testing.T) {
	t.Parallel()
	values, err := parse(strings.NewReader("# TYPE busy gauge\nbusy{k=\"a\"} NaN\nbusy{k=\"b\"} +Inf\nbusy{k=\"c\"} 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(&Scrape{Instance: "api-1", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var got Scrape
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, v := range []map[string]float64{values, got.Values} {
		if len(v) != 3 || !math.IsNaN(v[`busy{k="a"}`]) || !math.IsNaN(v[`busy{k="b"}`]) || v[`busy{k="c"}`] != 3 {
			t.Errorf("got %v, want NaN, NaN and 3", v)
		}
	}
	// Files from before have numbers alone.
	if err := json.Unmarshal([]byte(`{"t":"2026-06-01T08:00:00Z","n":"api-1","d":5,"v":{"x":1}}`), &got); err != nil || len(got.Values) != 1 || got.Values["x"] != 1 || got.Took != 5 || got.At.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a_total 1\n")
	f.Add("# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n")
	f.Add("a{b=\"\xff\"} NaN")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = parse(strings.NewReader(text))
	})
}
