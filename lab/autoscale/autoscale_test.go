package autoscale_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/autoscale"
)

// policy reads a policy of 1 to most replicas with a target of 50 %, and what behavior says.
func policy(t *testing.T, least, most int, behavior string) *autoscale.Policy {
	t.Helper()
	var value map[string]any
	text := `{"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}], "behavior": ` + behavior + `}`
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	value["minReplicas"], value["maxReplicas"] = least, most
	p, err := autoscale.Read(value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// none has neither windows nor bounds on the change.
const none = `{"scaleUp": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 10000, "periodSeconds": 1}]},
	"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 1}]}}`

func busy(replicas int, utilisation float64) autoscale.Observed {
	return autoscale.Observed{Utilisation: slices.Repeat([]float64{utilisation}, replicas)}
}

// TestFormula has the examples of Kubernetes' documentation: twice the target doubles, half
// of it halves, and within a tenth nothing changes.
func TestFormula(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		observed autoscale.Observed
		want     int
	}{
		"twice the target":             {busy(3, 1.0), 6},
		"half of it":                   {busy(4, 0.25), 2},
		"rounded up":                   {busy(3, 0.6), 4}, // 3.6
		"at the target":                {busy(3, 0.5), 3},
		"a tenth above":                {busy(10, 0.55), 10},
		"more than that":               {busy(10, 0.551), 12}, // 11.02
		"a tenth below":                {busy(10, 0.45), 10},
		"less than that":               {busy(10, 0.44), 9}, // 8.8
		"idle":                         {busy(5, 0), 1},
		"no more than maxReplicas":     {busy(90, 1), 100},
		"nobody was ready":             {autoscale.Observed{Starting: 3}, 3},
		"more, and some are starting":  {autoscale.Observed{Utilisation: []float64{1, 1}, Starting: 1}, 4},     // 4 / 3 × 3
		"enough are starting":          {autoscale.Observed{Utilisation: []float64{1, 1}, Starting: 2}, 4},     // 1
		"more than enough are":         {autoscale.Observed{Utilisation: []float64{1, 1}, Starting: 5}, 7},     // not fewer
		"fewer, and some are starting": {autoscale.Observed{Utilisation: []float64{0.2, 0.2}, Starting: 2}, 1}, // 0.4 × 2
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := autoscale.NewScaler(policy(t, 1, 100, none)).Desire(0, test.observed); got != test.want {
				t.Errorf("%d replicas, want %d", got, test.want)
			}
		})
	}
}

// walk has a scaler look every 15 s, with what a number of replicas sees, and returns how
// many there were after each look.
func walk(p *autoscale.Policy, replicas int, looks int, see func(replicas int) float64) []int {
	s := autoscale.NewScaler(p)
	var out []int
	for i := range looks {
		replicas = s.Desire(time.Duration(i)*15*time.Second, busy(replicas, see(replicas)))
		out = append(out, replicas)
	}
	return out
}

// TestPolicies has the documentation's: 80 replicas of which 10 are needed lose 10 % a minute,
// rounded up, and below 40 four at a time.
func TestPolicies(t *testing.T) {
	t.Parallel()
	p := policy(t, 1, 100, `{"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}, {"type": "Percent", "value": 10, "periodSeconds": 60}]}}`)
	got := walk(p, 80, 60, func(replicas int) float64 { return 0.5 * 10 / float64(replicas) })
	want := []int{72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10, 10}
	for i, n := range want {
		if got[i*4] != n || got[min(i*4+3, len(got)-1)] != n {
			t.Fatalf("after minute %d there are %d, and %d at its end; want %d: %v", i, got[i*4], got[min(i*4+3, len(got)-1)], n, got)
		}
	}
	up := func(behavior string) []int {
		return walk(policy(t, 1, 100, behavior), 1, 5, func(replicas int) float64 { return 50 / float64(replicas) })
	}
	for name, test := range map[string]struct {
		behavior string
		want     []int
	}{
		"the defaults: four, or double":  {`{}`, []int{5, 10, 20, 40, 80}},
		"the lesser of the two":          {`{"scaleUp": {"selectPolicy": "Min"}}`, []int{2, 4, 8, 12, 16}},
		"never":                          {`{"scaleUp": {"selectPolicy": "Disabled"}}`, []int{1, 1, 1, 1, 1}},
		"one in half a minute":           {`{"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]}}`, []int{2, 2, 3, 3, 4}},
		"and the defaults with a window": {`{"scaleUp": {"stabilizationWindowSeconds": 30}}`, []int{5, 10, 20, 40, 80}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := up(test.behavior); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// TestStabilisation: a dip within the window leaves the replicas, a peak within the other one
// starts none.
func TestStabilisation(t *testing.T) {
	t.Parallel()
	look := 0
	see := func(loads ...float64) func(int) float64 {
		look = 0
		return func(replicas int) float64 {
			look++
			return 0.5 * loads[min(look, len(loads))-1] / float64(replicas)
		}
	}
	down := policy(t, 1, 10, `{"scaleDown": {"stabilizationWindowSeconds": 60}}`)
	if got, want := walk(down, 8, 8, see(8, 2, 8, 2, 2, 2, 2, 2)), []int{8, 8, 8, 8, 8, 8, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("with a dip %v, want %v", got, want)
	}
	up := policy(t, 1, 10, `{"scaleUp": {"stabilizationWindowSeconds": 30, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 1}]}, "scaleDown": {"stabilizationWindowSeconds": 0}}`)
	if got, want := walk(up, 2, 6, see(2, 8, 2, 8, 8, 8)), []int{2, 2, 2, 2, 8, 8}; !slices.Equal(got, want) {
		t.Errorf("with a peak %v, want %v", got, want)
	}
}

// TestRead says in a sentence what to write.
func TestRead(t *testing.T) {
	t.Parallel()
	const metrics = `"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}]`
	for text, want := range map[string]string{
		`{"maxReplicas": 4, ` + metrics + `}`:                                                                  "",
		`{` + metrics + `}`:                                                                                    "maxReplicas is 0",
		`{"maxReplicas": 4, "minReplicas": 5, ` + metrics + `}`:                                                "minReplicas is 5",
		`{"maxReplicas": 4}`:                                                                                   "it has 0 metrics",
		`{"maxReplicas": 4, "max": 3, ` + metrics + `}`:                                                        `an HPA has no "max"`,
		`{"maxReplicas": "4", ` + metrics + `}`:                                                                "maxReplicas is a string",
		`{"maxReplicas": 4, "metrics": [{"type": "Pods"}]}`:                                                    "only the utilisation of CPU",
		`{"maxReplicas": 4, "syncPeriodSeconds": 0, ` + metrics + `}`:                                          "syncPeriodSeconds is 0",
		`{"maxReplicas": 4, "behavior": {"scaleUp": {"selectPolicy": "Most"}}, ` + metrics + `}`:               `selectPolicy of scaleUp is "Most"`,
		`{"maxReplicas": 4, "behavior": {"scaleUp": {"tolerance": 3}}, ` + metrics + `}`:                       "tolerance of scaleUp is 3",
		`{"maxReplicas": 4, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 4000}}, ` + metrics + `}`: "stabilizationWindowSeconds of scaleDown is 4000",
		`{"maxReplicas": 4, "behavior": {"scaleDown": {"policies": [{"type": "Replicas", "value": 1, "periodSeconds": 1}]}}, ` + metrics + `}`: "a policy of scaleDown is {type: Replicas",
		`[]`: "an HPA has another type",
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		_, err := autoscale.Read(value)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
