package report

import (
	"testing"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// What was not seen is no zero.
func TestUnseen(t *testing.T) {
	t.Parallel()
	db := verdict.Component{Name: "db", Instances: 1, Unseen: true}
	if row := newComponentRow(&db); row.Throttled != format.Missing || row.Busy != format.Missing || row.Memory != format.Missing || row.Share != "1 instance, not seen" {
		t.Errorf("got %+v", row)
	}
	charts := newDemandCharts(&result.Result{Variants: []result.Variant{{Name: "one", Components: []verdict.Component{{Name: "api", DemandMS: 2}, db}}}})
	if rows := charts.Charts[0].Rows; rows[0].Demand == format.Missing || rows[1].Demand != format.Missing {
		t.Errorf("got %+v", rows)
	}
}
