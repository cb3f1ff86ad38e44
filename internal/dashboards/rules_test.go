package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// group is one group of a rule file.
type group struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

// rule records or alerts.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T, m *monitored) []rule {
	t.Helper()
	files, err := filepath.Glob(m.dir("prometheus/rules/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %q, %v, want rules", files, err)
	}
	var all []rule
	for _, file := range files {
		var content struct {
			Groups []group `yaml:"groups"`
		}
		read(t, file, &content)
		for _, g := range content.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// promtool runs it, or skips the test where it is not installed, but not in CI.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("promtool is not installed (Debian's package prometheus): %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	return string(out), err
}

func ruleTests(t *testing.T, m *monitored) []string {
	t.Helper()
	files, err := filepath.Glob(m.dir("prometheus/tests/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %q, %v, want tests of rules", files, err)
	}
	return files
}

func TestPrometheusTakesTheConfigurationAndItsRules(t *testing.T) {
	t.Parallel()
	each(t, prometheusTakesIt)
}

func prometheusTakesIt(t *testing.T, m *monitored) {
	t.Helper()
	if out, err := promtool(t, "check", "config", m.dir("prometheus/prometheus.yml")); err != nil || strings.Count(out, "rules found") < 2 {
		t.Errorf("got %v:\n%s", err, out)
	}
	if out, err := promtool(t, append([]string{"test", "rules"}, ruleTests(t, m)...)...); err != nil {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// A test of rules must be able to fail: with its threshold raised, an alert no
// longer fires where it should.
func TestTheTestsOfRulesCanFail(t *testing.T) {
	t.Parallel()
	each(t, testsOfRulesCanFail)
}

func testsOfRulesCanFail(t *testing.T, m *monitored) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(m.dir("prometheus"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "rules", "alerts.yml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "> 0.01", "> 0.5")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := promtool(t, "test", "rules", filepath.Join(dir, "tests", m.falls))
	if err == nil || !strings.Contains(out, "FAILED") {
		t.Errorf("got %v:\n%s", err, out)
	}
}

// tells finds what tells a person to do something.
var tells = regexp.MustCompile(`docker compose |loadstone |[Ll]ook at |Start |raise `)

func TestThreeAlertsThatSayWhatToDo(t *testing.T) {
	t.Parallel()
	each(t, threeAlerts)
}

func threeAlerts(t *testing.T, m *monitored) {
	t.Helper()
	var texts []string
	for _, file := range ruleTests(t, m) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	pages := []string{}
	for _, d := range dashboards(t, m) {
		pages = append(pages, "/d/"+d.UID)
	}
	alerts := 0
	for _, r := range rules(t, m) {
		if r.Alert == "" {
			continue
		}
		alerts++
		if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || !tells.MatchString(r.Annotations["description"]) {
			t.Errorf("%s does not say how long, how bad, what, or what to do: %+v", r.Alert, r)
		}
		if !slices.Contains(pages, r.Annotations["dashboard"]) {
			t.Errorf("%s leads to the dashboard %q", r.Alert, r.Annotations["dashboard"])
		}
		fires := func(text string) bool { return strings.Contains(text, `alertname="`+r.Alert+`", alertstate="firing"`) }
		quiet := func(text string) bool { return fires(text) && strings.Contains(text, "exp_samples: []") }
		if !slices.ContainsFunc(texts, fires) || !slices.ContainsFunc(texts, quiet) {
			t.Errorf("%s has no test in which it fires, or none in which it does not", r.Alert)
		}
	}
	if alerts != 3 {
		t.Errorf("got %d alerts, want 3: more are read by nobody", alerts)
	}
}
