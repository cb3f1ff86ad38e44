package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/compare"
	"loadstone/lab/host"
	"loadstone/lab/predict"
)

// plantRuns puts two runs of one experiment below dir/runs. In the second, cached
// sustains a quarter less.
func plantRuns(t *testing.T, dir string) {
	t.Helper()
	noise := []float64{1, 1.02, 0.99, 1.01, 0.98, 1.03}
	variant := func(name string, capacity, level float64) archivetest.Variant {
		v := archivetest.Variant{Name: name, Service: 4 * time.Millisecond, Components: []archivetest.Component{
			{Name: "api", Instances: 1, CPUs: 0.25, Demand: time.Duration(0.24e9 / (capacity * level))},
			{Name: "lb", Instances: 1, CPUs: 0.5, Demand: time.Duration(100e3 / level)},
		}}
		for i := range noise {
			v.Capacities = append(v.Capacities, capacity*level*noise[(i+len(name))%len(noise)])
		}
		return v
	}
	for i, cached := range []float64{1000, 750} {
		level := 1 + 0.1*float64(i)
		p := archivetest.Run{
			Name: "checkout", Seed: 1, Started: time.Date(2026, 6, 1, 8, i, 0, 0, time.UTC),
			Environment: archive.Environment{Machine: host.Machine{CPU: "one", Cores: 2, LimitsEnforced: true}, Driver: "process", Version: "test"},
			Variants:    []archivetest.Variant{variant("plain", 400, level), variant("cached", cached, level)},
		}
		if _, err := p.Write(filepath.Join(dir, "runs")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCompareAndPredict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	// A run that was stopped is not the latest, and is refused by name.
	if _, err := archive.Create(filepath.Join(dir, "runs"), archive.Manifest{
		Experiment: "stopped", Started: time.Date(2026, 6, 2, 8, 0, 0, 0, time.UTC), Trials: []archive.Planned{{Index: 1, Round: 1, Variant: "v"}},
	}, []byte("name: stopped\n")); err != nil {
		t.Fatal(err)
	}
	first := "20260601-080000-checkout"
	for name, c := range map[string]struct {
		args           string
		code           int
		stdout, stderr string
	}{
		"two runs":               {"compare latest~1 latest", exitOK, "plain  ", ""},
		"the change":             {"compare " + first + " latest", exitOK, "worse", ""},
		"by directory":           {"compare runs/" + first + " latest", exitOK, "A  " + first, ""},
		"by prefix":              {"compare 20260601-0800 20260601-0801", exitOK, "A  " + first, ""},
		"one run":                {"compare latest", exitOK, "plain → cached", ""},
		"markdown":               {"compare latest~1 latest --markdown", exitOK, "|---|", ""},
		"worse":                  {"compare latest~1 latest --relative --fail-if-worse 5%", exitCrossed, "worse", ""},
		"not so much worse":      {"compare latest~1 latest --relative --fail-if-worse 60%", exitOK, "", ""},
		"not worse, better":      {"compare latest latest~1 --relative --fail-if-worse 0.05", exitFailed, "", "without --relative it counts"},
		"relative":               {"compare latest~1 latest --relative", exitOK, "relative to plain", ""},
		"itself":                 {"compare latest latest~0 --fail-if-worse 5%", exitOK, "~", ""},
		"one that was stopped":   {"compare latest 20260602", exitFailed, "", "is incomplete"},
		"no such run":            {"compare latest 20260601-080000-chekout", exitUsage, "", `write "` + first + `"`},
		"two of that beginning":  {"compare 20260601", exitUsage, "", "the beginning of 2 runs"},
		"too far back":           {"compare latest~7", exitUsage, "", "runs has 2 whole runs"},
		"two forms":              {"compare latest --json --markdown", exitUsage, "", "write one of them"},
		"a share in words":       {"compare latest --fail-if-worse much", exitUsage, "", "such as 5%"},
		"relative of one":        {"compare latest --relative", exitUsage, "", "name a second one"},
		"other variants":         {"compare latest~1 latest --variants plain=cached", exitOK, "plain → cached", ""},
		"no such variants":       {"compare latest~1 latest --variants plain=cachd", exitUsage, "", `write "cached"`},
		"variants of one":        {"compare latest --variants plain=cached", exitUsage, "", "name a second one"},
		"variants, relative":     {"compare latest~1 latest --relative --variants plain=cached", exitUsage, "", "leave it out"},
		"half a pair":            {"compare latest~1 latest --variants plain", exitUsage, "", "write BEFORE=AFTER"},
		"no argument":            {"compare", exitUsage, "", "takes between 1 and 2 arguments, and none is given"},
		"scaling of two":         {"compare latest~1 latest --scaling api.replicas", exitUsage, "", "name one"},
		"scaling of none":        {"compare latest --scaling apo.replicas", exitUsage, "", `write "api"`},
		"predict":                {"predict latest --variant cached --set api.replicas=3", exitOK, "limit      api CPU", ""},
		"predict past the limit": {"predict latest --set api.replicas=30", exitOK, "before it was api", ""},
		"predict users":          {"predict latest --users 50 --think 2s", exitOK, "50 users who think for 2 s", ""},
		"predict no variant":     {"predict latest --variant cachd", exitUsage, "", `write "cached"`},
		"predict no service":     {"predict latest --set apo.cpus=1", exitUsage, "", `write "api"`},
		"predict no key":         {"predict latest --set api.cpu=1", exitUsage, "", "write cpus"},
		"predict no users":       {"predict latest --users 0", exitUsage, "", "from 1 to"},
		"predict thinkers":       {"predict latest --think 2s", exitUsage, "", "--users"},
		"predict twice":          {"predict latest --set api.cpus=1 --set api.cpus=2", exitUsage, "", "set the same"},
		"check of nothing":       {"predict latest --check e.yaml", exitUsage, "", "at least one --set"},
		"trials of nothing":      {"predict latest --set api.cpus=1 --trials 2", exitUsage, "", "about --check"},
	} {
		t.Run(name, func(t *testing.T) {
			got := loadstone(t, dir, strings.Fields(c.args)...)
			if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("exit status %d, want %d, %q and %q\n%s%s", got.code, c.code, c.stdout, c.stderr, got.stdout, got.stderr)
			}
			if c.code == exitUsage && strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("more than a sentence: %s", got.stderr)
			}
		})
	}
	var d compare.Difference
	if got := loadstone(t, dir, "compare", "latest~1", "latest", "--json"); json.Unmarshal([]byte(got.stdout), &d) != nil || d.Schema != compare.Schema || len(d.Tables) < 3 {
		t.Errorf("JSON: %s", got.stdout)
	}
	var a predict.Answer
	if got := loadstone(t, dir, "predict", "latest", "--json"); json.Unmarshal([]byte(got.stdout), &a) != nil || a.Schema != predict.Schema || a.Capacity.Value == 0 || len(a.Loads) != 2 {
		t.Errorf("JSON: %s", got.stdout)
	}
}

// The whole way: a run of real processes, a prediction of it, and its check.
func TestPredictionIsChecked(t *testing.T) {
	dir, _ := measured(t, nil, "--variants", "query")
	path := filepath.Join(dir, "small.yaml")
	got := loadstone(t, dir, "predict", "latest", "--set", "api.replicas=2", "--check", path, "--json")
	if got.code != exitOK {
		t.Fatalf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	var a predict.Answer
	if err := json.Unmarshal([]byte(got.stdout), &a); err != nil {
		t.Fatalf("%v in %s", err, got.stdout)
	}
	// One short trial on a machine that others use: the error is shown, not judged,
	// and there is none where either capacity is but a lower bound.
	if c := a.Check; c == nil || c.Measured <= 0 && !c.LowerBound || c.Again < 0 || a.Loads[0].Size != "2 × 0.25 CPU" {
		t.Fatalf("check %+v of %+v", c, a)
	}
	t.Logf("predicted %.0f, measured %.0f: error %.1f %%, of the factor %.1f %%", a.Capacity.Value, a.Check.Measured, 100*a.Check.Error, 100*a.Check.ErrorOfRatio)
}
