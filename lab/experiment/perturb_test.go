package experiment_test

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
)

func TestPerturbIsReadAndItsSchemaAgrees(t *testing.T) {
	t.Parallel()
	const file = "name: e\nsystem: compose.yaml\nentry: api\nvariants: {a: {}}\nload: {scenarios: {s: {executor: constant-arrival-rate, %sduration: 10s, request: GET /}}}\n" +
		"slo: {http_req_duration: [p(95)<200]}\ntrials: 6\n"
	s := compileSchema(t)
	f := func(measure, line string, want experiment.Perturb, wrong string) {
		t.Helper()
		rate := ""
		if measure == experiment.AsWritten {
			rate = "rate: 10/s, "
		}
		source := []byte(strings.Replace(file, "%s", rate, 1) + "measure: " + measure + "\n" + line + "\n")
		e, err := experiment.Parse("e.yaml", source)
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s, %q: got %v, want an error with %q", measure, line, err, wrong)
			}
			return
		}
		if err != nil || e.Perturb != want {
			t.Errorf("%s, %q: got %+v, %v, want %+v", measure, line, e, err, want)
		}
		if ok, err := validate(s, source); !ok || err != nil {
			t.Errorf("%s, %q: the schema refuses it: %v", measure, line, err)
		}
	}
	f(experiment.Capacity, "", experiment.Perturb{}, "")
	f(experiment.Capacity, "perturb: true", experiment.Perturb{Asked: true}, "")
	f(experiment.Capacity, "perturb: false", experiment.Perturb{Off: true}, "")
	f(experiment.Capacity, "perturb: {budget: 40s}", experiment.Perturb{Asked: true, Budget: 40 * time.Second}, "")
	f(experiment.Capacity, "perturb: {budget: 3s}", experiment.Perturb{}, "e.yaml:9:19: budget must be at least 10s")
	f(experiment.Capacity, "perturb: {time: 40s}", experiment.Perturb{}, "perturb has no key")
	f(experiment.Capacity, "perturb: 40s", experiment.Perturb{}, "perturb must have keys")
	f(experiment.AsWritten, "perturb: true", experiment.Perturb{}, "e.yaml:9:1: perturb is for measure: capacity")
}
