package analysis

import (
	"testing"
	"time"

	"loadstone/lab/load"
)

// What a request costs at a tenth of the capacity is that of the trial that offered it,
// beside what it costs at the capacity.
func TestDemandAtATenthOfTheCapacity(t *testing.T) {
	t.Parallel()
	v := planted{capacity: 1000, demand: 50 * time.Microsecond, instances: 2}
	r := write(t, map[string]planted{"one": v, "two": v})
	for i := range r.Trials {
		if trial := &r.Trials[i]; trial.Variant == "one" && trial.Round == 2 {
			// The probe saw 0.05 cores all the time.
			trial.Light = &load.Result{From: began.Add(2 * time.Second), To: began.Add(3 * time.Second), Iterations: 100, IterationsInTime: 100}
		}
	}
	res, err := Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	one, two := res.Variants[0], res.Variants[1]
	if c := one.Components[0]; !near(c.LightDemandMS, 0.5, 0.01) || !near(c.DemandMS, 0.05, 0.01) {
		t.Errorf("%v ms at a tenth and %v ms at the capacity, want 0.5 and 0.05", c.LightDemandMS, c.DemandMS)
	}
	if first, last := one.Figures[0].Components[0], one.Figures[1].Components[0]; first.LightDemandMS != 0 || !near(last.LightDemandMS, 0.5, 0.01) {
		t.Errorf("%v and %v ms by trial, want 0.5 in the last alone", first.LightDemandMS, last.LightDemandMS)
	}
	if c := two.Components[0]; c.LightDemandMS != 0 {
		t.Errorf("%v ms where no trial offered a tenth, want 0", c.LightDemandMS)
	}
}
