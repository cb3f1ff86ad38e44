package report

import (
	"slices"
	"testing"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// What was not seen is no zero.
func TestUnseen(t *testing.T) {
	t.Parallel()
	db := verdict.Component{Name: "db", Instances: 1, Unseen: 1}
	if row := newComponentRow(&db); row.Throttled != format.Missing || row.Busy != format.Missing || row.Memory != format.Missing || row.Share != "1 instance, not seen" {
		t.Errorf("got %+v", row)
	}
	charts := newDemandCharts(&result.Result{Variants: []result.Variant{{Name: "one", Components: []verdict.Component{{Name: "api", DemandMS: 2}, db}}}})
	if rows := charts.Charts[0].Rows; rows[0].Demand == format.Missing || rows[1].Demand != format.Missing {
		t.Errorf("got %+v", rows)
	}
}

// Nor is a machine that was not seen idle.
func TestUnwatched(t *testing.T) {
	t.Parallel()
	var c result.Conditions
	r := &result.Result{Variants: []result.Variant{{Name: "one", Conditions: &c}}}
	r.Environment.Cores = 2
	names := func() (all []string) {
		for _, c := range append(machineChecks(r), costChecks(r)...) {
			all = append(all, c.Name)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{"Machine", "Other processes", "Cost of watching"}) {
		t.Errorf("got %q", got)
	}
	if c.Unwatched = true; len(names()) != 0 {
		t.Errorf("got %q of what was not seen", names())
	}
}
