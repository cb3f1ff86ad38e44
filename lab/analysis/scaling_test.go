package analysis_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/host"
	"loadstone/lab/result"
)

var began = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

// near is within 1 %.
func near(got, want float64) bool { return math.Abs(got-want) <= 0.01*want }

// grow plants a sweep: api sustains 1,000 req/s for each unit of size, and lb 3,500
// in all. Each size has six trials, up to 2 % off.
func grow(t *testing.T, setting string, sizes []float64, sweep string) *result.Result {
	t.Helper()
	p := archivetest.Run{Name: "sweep", Seed: 1, Started: began, Environment: archive.Environment{Machine: host.Machine{Cores: 2, LimitsEnforced: true}}}
	for _, n := range sizes {
		v := archivetest.Variant{Name: fmt.Sprintf("%s-%g", setting, n), Service: 2 * time.Millisecond}
		sustains := min(1000*n, 3500)
		for i := range 6 {
			v.Capacities = append(v.Capacities, 0.95*sustains*(1+0.004*float64(i*i%7-3)))
		}
		api := archivetest.Component{Name: "api", Instances: int(n), CPUs: 0.2, Demand: 200 * time.Microsecond}
		if setting == "cpus" {
			api.Instances, api.CPUs = 1, 0.2*n
		}
		lb := archivetest.Component{Name: "lb", Instances: 1, CPUs: 0.35, Demand: 100 * time.Microsecond}
		v.Components = []archivetest.Component{api, lb}
		p.Variants = append(p.Variants, v)
	}
	return derived(t, p, sweep)
}

// derived writes a run, whose variants a sweep made if one is given, and derives
// its result.
func derived(t *testing.T, p archivetest.Run, sweep string) *result.Result {
	t.Helper()
	dir, err := p.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if sweep != "" {
		path := filepath.Join(dir, "experiment.yaml")
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(source), "variants:\n")
		_, rest, _ = strings.Cut(rest, "load:")
		if err := os.WriteFile(path, []byte(head+sweep+"\nload:"+rest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	res, err := analysis.Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Where replicas stop helping is said by the smallest size, and the largest is
// predicted from the one before it.
func TestGrowthOfReplicas(t *testing.T) {
	t.Parallel()
	s := grow(t, "replicas", []float64{1, 2, 3, 6, 8}, "sweep: {service: api, replicas: [1, 2, 3, 6, 8], carry: 2700/s}").Scaling
	if s == nil || len(s.Points) != 5 {
		t.Fatalf("scaling %+v, want five points", s)
	}
	var limits []string
	for _, p := range s.Points {
		limits = append(limits, p.Limit)
	}
	if got := strings.Join(limits, ","); got != "api,api,api,lb,lb" {
		t.Errorf("limits %q, want api until 3 and lb from 6 on", got)
	}
	if k := s.Takeover; k == nil || k.Grown != "api" || k.Next != "lb" || k.At != 4 || !near(k.Bound, 3500) {
		t.Errorf("takeover %+v, want lb from 4 on, at 3500", k)
	}
	if s.Law == nil || s.Law.Shape != "ceiling" || s.Law.Peak != nil || s.Law.PeakNote != "no peak inside the measured range" {
		t.Errorf("law %+v, want a ceiling and no peak", s.Law)
	}
	if s.Law.Sigma.Low < 0 || s.Law.Kappa.Low < 0 || s.Law.Lambda.Confidence != 0.95 {
		t.Errorf("law %+v, want intervals, and nothing below 0", s.Law)
	}
	if h := s.HeldOut; h == nil || h.Size != 8 || math.Abs(h.Error) > 0.01 || h.Predicted.Confidence < 0.9 || !strings.Contains(h.From, "replicas-6") {
		t.Errorf("held out %+v, want 8 from 6 within 1 %%", h)
	}
	if c := s.Carry; c == nil || c.Size != 3 || c.Maybe != 0 || !strings.Contains(c.Text, "3 replicas of api") {
		t.Errorf("carry %+v, want 3", c)
	}
}

// Where the bounds are too close to tell, both are named. At 3.5 times the CPU api
// sustains exactly what lb does.
func TestGrowthNamesTies(t *testing.T) {
	t.Parallel()
	s := grow(t, "cpus", []float64{1, 3.5, 8}, "sweep: {service: api, cpus: [1, 3.5, 8]}").Scaling
	if p := s.Points[1]; p.Limit != "" || strings.Join(p.Tied, ",") != "api,lb" {
		t.Errorf("3.5: %+v, want api and lb tied", p)
	}
	if p := s.Points[2]; p.Limit != "lb" || p.Tied != nil {
		t.Errorf("8: %+v, want lb", p)
	}
}

// A fit would go on in a line here; the bounds know that lb is in the way.
func TestHeldOutBeyondTheTakeover(t *testing.T) {
	t.Parallel()
	s := grow(t, "replicas", []float64{1, 2, 3, 6}, "sweep: {service: api, replicas: [1, 2, 3, 6]}").Scaling
	if h := s.HeldOut; h == nil || !near(h.Predicted.Value, 0.95*3500) || s.Carry != nil {
		t.Errorf("held out %+v, carry %+v; want 6 at lb's limit and no answer that nobody asked for", h, s.Carry)
	}
}

func TestGrowthOfShares(t *testing.T) {
	t.Parallel()
	s := grow(t, "cpus", []float64{0.5, 1, 2}, "sweep: {service: api, cpus: [0.5, 1, 2], carry: 5000/s}").Scaling
	if s == nil || s.Takeover == nil || !near(s.Takeover.At, 3.5) || s.Takeover.Next != "lb" {
		t.Fatalf("scaling %+v, want lb to take over at 3.5 times the share", s)
	}
	if s.Law == nil || !near(s.Law.Lambda.Value, 475) || s.Law.Curve[0][0] != 0.5 || s.Law.Curve[60][0] != 2 {
		t.Errorf("law %+v, want the smallest share's capacity as λ and the curve over the shares", s.Law)
	}
	if s.Carry.Size != 0 || s.Carry.Maybe != 0 || !strings.Contains(s.Carry.Text, "No size measured") {
		t.Errorf("carry %+v, want none", s.Carry)
	}
	two := grow(t, "cpus", []float64{0.5, 1}, "sweep: {service: api, cpus: [0.5, 1]}").Scaling
	if two.Law != nil || !strings.Contains(two.Note, "takes 3 sizes") || two.HeldOut == nil {
		t.Errorf("two sizes: %+v, want no law, its reason, and a prediction", two)
	}
}
