package summary_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"loadstone/lab/load"
	"loadstone/lab/load/engine"
	"loadstone/lab/load/summary"
)

// TestRealLoads summarises loads that were really offered: to a server, and to
// an address where nobody listens.
func TestRealLoads(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	nobody := "http://127.0.0.1:1" // a port that nobody is given
	schema := compile(t, schemaOf(t, true))
	for _, c := range []struct{ target, want string }{
		{server.URL, "Non-2xx or 3xx responses: "},
		{nobody, "refused  "},
	} {
		s := realLoad(t, c.target)
		if s.Requests == 0 || s.Failed != s.Requests {
			t.Errorf("%s: %d of %d requests failed, want all of some", c.target, s.Failed, s.Requests)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(written(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: the schema refuses the summary: %v", c.target, err)
		}
		if got := text(t, s, summary.DefaultStyle()); !strings.Contains(got, c.want) {
			t.Errorf("%s: the text lacks %q:\n%s", c.target, c.want, got)
		}
	}
}

func realLoad(t *testing.T, target string) *summary.Summary {
	t.Helper()
	plan := load.Plan{
		Targets: []string{target},
		Scenarios: []load.Scenario{{
			Name: "default", Executor: load.ConstantArrivalRate, Arrivals: load.Uniform,
			Rate: 100, Duration: 300 * time.Millisecond, GracefulStop: 10 * time.Second, PreAllocatedVUs: 2, MaxVUs: 10,
			Steps: []load.Step{{Name: "default", Request: load.Request{Method: http.MethodGet, Path: "/"}}},
		}},
		Seed: 1, Timeout: 5 * time.Second,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a hundred times what it takes
	defer cancel()
	result, err := engine.Run(ctx, plan, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := summary.New(plan, &result, nil, summary.Machine{Cores: 1, GOMAXPROCS: 1, OS: "linux/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
