package predict

import (
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// Components whose CPUs limit equally are in the model; anything else is not.
func TestVerdictsThatTheModelKnows(t *testing.T) {
	t.Parallel()
	cpu := func(of string) verdict.Limit { return verdict.Limit{Component: of, Resource: verdict.CPU} }
	pool := verdict.Limit{Component: "api", Resource: verdict.Pool, Name: "connections"}
	for name, c := range map[string]struct {
		verdict verdict.Verdict
		want    string
	}{
		"one CPU":                     {verdict.Verdict{Status: verdict.Named, Component: "api", Resource: verdict.CPU}, ""},
		"two CPUs":                    {verdict.Verdict{Status: verdict.Tied, Tied: []verdict.Limit{cpu("api"), cpu("lb")}}, ""},
		"and a pool":                  {verdict.Verdict{Status: verdict.Tied, Tied: []verdict.Limit{cpu("lb"), pool}}, "limited equally by the pool of api"},
		"a pool":                      {verdict.Verdict{Status: verdict.Named, Component: "api", Resource: verdict.Pool}, "limited by the pool of api"},
		"a pool that is in the model": {verdict.Verdict{Status: verdict.Named, Component: "db", Resource: verdict.Pool, ResourceName: "clients"}, ""},
		"undecided":                   {verdict.Verdict{Status: verdict.Undecided}, `"undecided"`},
	} {
		s := System{component: map[string]string{poolName("db", "clients"): "db"}}
		s.addVerdict(&result.Variant{Verdict: c.verdict})
		if got := strings.Join(s.Warnings, "; "); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: warnings %q, want %q", name, got, c.want)
		}
	}
}
