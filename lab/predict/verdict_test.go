package predict

import (
	"strings"
	"testing"

	"loadstone/lab/report"
	"loadstone/lab/verdict"
)

// Components whose CPUs limit equally are in the model; anything else is not.
func TestVerdictsThatTheModelKnows(t *testing.T) {
	t.Parallel()
	cpu := func(of string) verdict.Limit { return verdict.Limit{Component: of, Resource: verdict.CPU} }
	pool := verdict.Limit{Component: "api", Resource: verdict.Pool, Name: "connections"}
	for name, c := range map[string]struct {
		verdict report.Verdict
		want    string
	}{
		"one CPU":    {report.Verdict{Status: report.Named, Component: "api", Resource: verdict.CPU}, ""},
		"two CPUs":   {report.Verdict{Status: report.Tied, Tied: []verdict.Limit{cpu("api"), cpu("lb")}}, ""},
		"and a pool": {report.Verdict{Status: report.Tied, Tied: []verdict.Limit{cpu("lb"), pool}}, "limited equally by the pool of api"},
		"a pool":     {report.Verdict{Status: report.Named, Component: "api", Resource: verdict.Pool}, "limited by the pool of api"},
		"undecided":  {report.Verdict{Status: report.Undecided}, `"undecided"`},
	} {
		var s System
		s.takeVerdict(&report.Variant{Verdict: c.verdict})
		if got := strings.Join(s.Warnings, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: warnings %q, want %q", name, got, c.want)
		}
	}
}
