package engine

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
)

// A plan that is to explain itself says how an answer began that was not expected.
func TestRefusalsAreQuoted(t *testing.T) {
	t.Parallel()
	run := func(plan load.Plan) load.Result {
		t.Helper()
		r, err := Run(t.Context(), plan, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, protocol := range []string{load.HTTP1, load.HTTP2} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/gone" {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte("not here"))
				return
			}
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("\x1b[31mfares:\r\n\tno such host\x00 " + strings.Repeat("x", 10_000)))
		}))
		if protocol == load.HTTP2 {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
		}
		s.Start()
		t.Cleanup(s.Close)
		plan := load.Plan{
			Targets: []string{s.URL}, Seed: 1, Timeout: time.Minute, Protocol: protocol, Explain: true,
			Scenarios: []load.Scenario{{
				Name: "get", Executor: load.SharedIterations, VUs: 1, Iterations: 3, Duration: time.Minute, GracefulStop: time.Second,
				Steps: []load.Step{
					{Name: "bad", Request: load.Request{Method: http.MethodGet, Path: "/bad"}},
					{Name: "gone", Request: load.Request{Method: http.MethodGet, Path: "/gone"}, ExpectedStatuses: []int{http.StatusNotFound}},
				},
			}},
		}
		r := run(plan)
		said := r.Refusals[http.StatusBadGateway]
		if len(r.Refusals) != 1 || !strings.HasPrefix(said, "[31mfares: no such host xxx") || len([]rune(said)) != 200 {
			t.Errorf("%s: got %v, want how the 502 begins, in one line, and nothing of the 404, which is expected", protocol, r.Refusals)
		}
		if text := r.Failures(); !strings.Contains(text, "3 × status 502 ([31mfares: no such host") {
			t.Errorf("%s: the failures are %q", protocol, text)
		}
		if both, err := load.Merge([]load.Result{r, r}); err != nil || both.Refusals[http.StatusBadGateway] != said {
			t.Errorf("%s: merged with itself: got %v and %v", protocol, both.Refusals, err)
		}
		plan.Explain = false
		if r := run(plan); r.Refusals != nil || r.Failed != 3 {
			t.Errorf("%s: got %v of %d failures; it was not asked to explain", protocol, r.Refusals, r.Failed)
		}
	}
}
