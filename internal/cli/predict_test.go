package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/predict"
)

func TestPredictSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	const two = "cached: api.replicas=3, lb.cpus=1"
	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string // what a mistake's only sentence has
	}{
		"a table":            {[]string{"--topology", two, "--topology", "api.cpus=0.5"}, exitOK, "plain: api.cpus=0.5", ""},
		"another variant":    {[]string{"--variant", "cached", "--topology", "api.cpus=0.5"}, exitOK, "cached: api.cpus=0.5", ""},
		"no such variant":    {[]string{"--topology", "cachd: api.cpus=1"}, exitUsage, "", `write "cached"`},
		"no such service":    {[]string{"--topology", "cached: apo.cpus=1"}, exitUsage, "", `write "api"`},
		"nothing changed":    {[]string{"--topology", "cached:"}, exitUsage, "", "is not a change"},
		"twice the same":     {[]string{"--topology", two, "--topology", two}, exitUsage, "", "is there twice"},
		"two ways to say it": {[]string{"--topology", two, "--set", "api.cpus=1"}, exitUsage, "", "short for one topology"},
		"users of several":   {[]string{"--topology", two, "--users", "5"}, exitUsage, "", "about one topology"},
		"check of nowhere":   {[]string{"--topology", two, "--check", "e.yaml"}, exitUsage, "", "neither an experiment file nor a run"},
		"check of others":    {[]string{"--topology", two, "--check", "latest"}, exitUsage, "", "did not measure these topologies"},
		"trials of a run":    {[]string{"--topology", two, "--check", "latest", "--trials", "2"}, exitUsage, "", "no experiment file"},
	} {
		t.Run(name, func(t *testing.T) {
			got := loadstone(t, dir, append([]string{"predict", "latest"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("exit status %d, want %d, %q and %q\n%s%s", got.code, c.code, c.stdout, c.stderr, got.stdout, got.stderr)
			}
			if c.code == exitUsage && strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("more than a sentence: %s", got.stderr)
			}
		})
	}
	got := loadstone(t, dir, "predict", "latest", "--topology", two, "--topology", "api.cpus=0.5", "--json")
	var s predict.Several
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil || s.Schema != predict.SeveralSchema || len(s.Predictions) != 2 || s.Predictions[0].Variant != "cached" {
		t.Errorf("%v in %s%s", err, got.stdout, got.stderr)
	}
}

// Two topologies are measured in one run beside the variant that they change, which
// is there once; and that run tells the same again without measuring.
func TestSeveralPredictionsAreChecked(t *testing.T) {
	dir, _ := measured(t, []string{"search: {budget: 4s}", "search: {budget: 3s}\nperturb: false"}, "--variants", "query")
	path := filepath.Join(dir, "small.yaml")
	base := onlyRun(t, dir)
	args := []string{"predict", base, "--topology", "api.replicas=2", "--topology", "query: api.cpus=0.15", "--json"}
	first := loadstone(t, dir, append(args, "--check", path)...)
	if first.code != exitOK {
		t.Fatalf("exit status %d\n%s\n%s", first.code, first.stdout, first.stderr)
	}
	var s predict.Several
	if err := json.Unmarshal([]byte(first.stdout), &s); err != nil {
		t.Fatalf("%v in %s", err, first.stdout)
	}
	// One short trial on a machine that others use: the errors are not judged.
	if s.Check == nil || s.Check.Topologies != 2 {
		t.Fatalf("score %+v of %s", s.Check, first.stdout)
	}
	r := derivedResult(t, filepath.Join(dir, "runs", s.Check.Run))
	var names []string
	for _, v := range r.Variants {
		names = append(names, v.Name)
	}
	if got, want := strings.Join(names, " "), "query query.predicted-1 query.predicted-2"; got != want {
		t.Errorf("measured %s, want %s", got, want)
	}
	if again := loadstone(t, dir, append(args, "--check", s.Check.Run)...); again.code != exitOK || again.stdout != first.stdout {
		t.Errorf("exit status %d; the run of the check says something else:\n%s%s", again.code, again.stdout, again.stderr)
	}
}
