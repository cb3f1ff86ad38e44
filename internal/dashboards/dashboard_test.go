// Package dashboards tests the monitoring of the systems that have one: that their
// dashboards, rules and alerts (grafana and prometheus beside their Compose files) are
// whole, and, against a system that really runs, that every query is one that
// Prometheus takes and every series in it is one that something exports. A
// dashboard that names what nobody exports is empty without a word.
//
// There is no Grafana here, so nothing says how a dashboard looks. The package
// has no code of its own.
package dashboards

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// monitored is a system with a monitoring.
type monitored struct {
	name string
	// falls is a test of rules that fails when the error ratio of an alert is raised.
	falls string
	// overlay makes the system small for the test, and env its variables. %s is a copy of its
	// directory prometheus, %[2]s a directory for the test.
	overlay string
	env     map[string]string
	// containers says that figures of containers are asked for.
	containers bool
	// base is where the lb serves, and paths what is asked for there: %d is a number that grows.
	base  string
	paths []string
	// twice is the job that has two copies.
	twice string
}

func (m *monitored) dir(below string) string { return filepath.Join("../../system", m.name, below) }

// systems are all.
var systems = []*monitored{
	{
		name: "results", falls: "served.yml", containers: true, twice: "api",
		base: "https://%s:8443", paths: []string{"/student/%d", "/student/90%04d", "/?%d"},
		env: map[string]string{"RESULTS_STUDENTS": "500"},
		// What the shipped form has only on demand: pages for anybody, both tiers of the
		// cache, a CPU limit.
		overlay: `
services:
  api:
    environment: {RESULTS_ACCESS: open, RESULTS_LIMITS: "on", RESULTS_CACHE: memory+redis}
    deploy: {replicas: 2, resources: {limits: {cpus: "1.5"}}}
  prometheus: {volumes: ["%s:/etc/prometheus:ro"]}
  cadvisor: {command: ["--docker_only=true", "--housekeeping_interval=1s"]}
`,
	},
	{
		name: "menu", falls: "alerts.yml", twice: "proxy",
		base: "http://%s:8090", paths: []string{"/api/menu/%d", "/api/menu/90%04d", "/restaurants/%d"},
		env: map[string]string{"MENU_COUNT": "500", "MENU_WEBHOOKS": "%[2]s/webhooks"},
		overlay: `
services:
  menuserver: {deploy: {replicas: 1}}
  proxy: {deploy: {replicas: 2}}
  prometheus: {volumes: ["%s:/etc/prometheus:ro"]}
`,
	},
}

// each tests every system.
func each(t *testing.T, test func(t *testing.T, m *monitored)) {
	t.Helper()
	for _, m := range systems {
		t.Run(m.name, func(t *testing.T) { t.Parallel(); test(t, m) })
	}
}

// dashboard is what is tested of Grafana's JSON.
type dashboard struct {
	UID      string `json:"uid"`
	Title    string `json:"title"`
	Editable bool   `json:"editable"`
	Links    []struct {
		URL string `json:"url"`
	} `json:"links"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string      `json:"name"`
	Datasource *datasource `json:"datasource"`
	Query      struct {
		Query string `json:"query"`
	} `json:"query"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID         int         `json:"id"`
	Type       string      `json:"type"`
	Title      string      `json:"title"`
	Datasource *datasource `json:"datasource"`
	GridPos    struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// panelTypes are those that come with Grafana and are used.
var panelTypes = []string{"timeseries", "stat", "bargauge", "state-timeline", "row"}

// units are Grafana's names of those that are used.
var units = []string{"reqps", "ops", "percentunit", "s", "short", "bytes", "Bps"}

func dashboards(t *testing.T, m *monitored) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(m.dir("grafana/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %q, %v, want dashboards", files, err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// source is the uid of the datasource that is provisioned.
func source(t *testing.T, m *monitored) string {
	t.Helper()
	var provisioned struct {
		Datasources []struct {
			UID  string `yaml:"uid"`
			Type string `yaml:"type"`
			URL  string `yaml:"url"`
		} `yaml:"datasources"`
	}
	read(t, m.dir("grafana/provisioning/datasources/prometheus.yaml"), &provisioned)
	if len(provisioned.Datasources) != 1 || provisioned.Datasources[0].Type != "prometheus" || provisioned.Datasources[0].URL != "http://prometheus:9090" {
		t.Fatalf("got %+v, want one Prometheus", provisioned)
	}
	return provisioned.Datasources[0].UID
}

func TestDashboardsAreWhole(t *testing.T) {
	t.Parallel()
	each(t, dashboardsAreWhole)
}

func dashboardsAreWhole(t *testing.T, m *monitored) {
	t.Helper()
	all, uid := dashboards(t, m), source(t, m)
	known := []string{}
	for name, d := range all {
		if d.UID+".json" != name {
			t.Errorf("%s has the uid %s", name, d.UID)
		}
		known = append(known, "/d/"+d.UID)
	}
	for name, d := range all {
		for _, problem := range problems(d, uid, known) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	var provider struct {
		Providers []struct {
			Type    string `yaml:"type"`
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	read(t, m.dir("grafana/provisioning/dashboards/"+m.name+".yaml"), &provider)
	var compose []byte
	for _, file := range []string{"compose.yaml", "services.yaml"} {
		text, err := os.ReadFile(m.dir(file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		compose = append(compose, text...)
	}
	if len(provider.Providers) != 1 || provider.Providers[0].Type != "file" || !strings.Contains(string(compose), ":"+provider.Providers[0].Options.Path+":ro") {
		t.Errorf("got %+v, want the directory that compose.yaml mounts", provider)
	}
}

// problems are all that is wrong with a dashboard as such. uid is the
// datasource's, known are the addresses of all dashboards.
func problems(d dashboard, uid string, known []string) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if d.UID == "" || d.Title == "" || d.Editable {
		say("without a uid or a title, or to be edited elsewhere than in its file")
	}
	for _, l := range d.Links {
		if !slices.Contains(known, l.URL) || l.URL == "/d/"+d.UID {
			say("a link leads to %s", l.URL)
		}
	}
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Datasource == nil || v.Datasource.UID != uid || v.Query.Query == "" {
			say("variable %s asks nobody, or nothing", v.Name)
		}
	}
	taken := map[[2]int]int{} // panels by cells of the grid
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] {
			say("panel %q: id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || !slices.Contains(panelTypes, p.Type) {
			say("panel %d %q is a %q, want one of %q", p.ID, p.Title, p.Type, panelTypes)
		}
		if g := p.GridPos; g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 || g.Y < 0 {
			say("panel %q lies outside: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok && other != p.ID {
					say("panel %d lies over panel %d", p.ID, other)
				}
				taken[[2]int{x, y}] = p.ID
			}
		}
		if p.Type != "row" {
			all = append(all, panelProblems(&p, uid, variables)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var variablePattern = regexp.MustCompile(`\$\{?(\w+)\}?`)

func panelProblems(p *panel, uid string, variables []string) []string {
	var all []string
	say := func(format string, args ...any) {
		all = append(all, fmt.Sprintf("panel %q: ", p.Title)+fmt.Sprintf(format, args...))
	}
	if p.Datasource == nil || p.Datasource.Type != "prometheus" || p.Datasource.UID != uid {
		say("its datasource is not the one that is provisioned: %+v", p.Datasource)
	}
	if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
		say("its unit is %q, want one of %q", p.FieldConfig.Defaults.Unit, units)
	}
	if len(p.Targets) == 0 {
		say("it asks nothing")
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if q.RefID == "" || refs[q.RefID] || q.Expr == "" || q.LegendFormat == "" {
			say("query %q: without a name of its own, an expression or a legend", q.RefID)
		}
		refs[q.RefID] = true
		for _, v := range variablePattern.FindAllStringSubmatch(q.Expr, -1) {
			if !slices.Contains(variables, v[1]) {
				say("there is no variable $%s", v[1])
			}
		}
	}
	return all
}

// The checks must be able to fail.
func TestWhatIsWrongWithADashboardIsFound(t *testing.T) {
	t.Parallel()
	const good = `{"uid": "a", "title": "A", "editable": false, "links": [{"url": "/d/b"}],
		"templating": {"list": [{"name": "v", "datasource": {"uid": "p"}, "query": {"query": "up"}}]}, "panels": [
		{"id": 1, "type": "row", "title": "R", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}},
		{"id": 2, "type": "stat", "title": "S", "gridPos": {"x": 0, "y": 1, "w": 12, "h": 4}, "datasource": {"type": "prometheus", "uid": "p"},
		"fieldConfig": {"defaults": {"unit": "s"}}, "targets": [{"refId": "A", "expr": "up{x=\"$v\"}[$__rate_interval]", "legendFormat": "l"}]}]}`
	f := func(from, to, want string) {
		t.Helper()
		var d dashboard
		if err := json.Unmarshal([]byte(strings.Replace(good, from, to, 1)), &d); err != nil || !strings.Contains(good, from) {
			t.Fatal(from, err)
		}
		got := strings.Join(problems(d, "p", []string{"/d/a", "/d/b"}), "|")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", to, got, want)
		}
	}
	f(good, good, "")
	f(`"id": 2`, `"id": 1`, "is not its own")
	f(`"y": 1`, `"y": 0`, "panel 2 lies over panel 1")
	f(`"w": 12`, `"w": 25`, "lies outside")
	f(`"type": "prometheus", "uid": "p"`, `"type": "prometheus", "uid": "q"`, "not the one that is provisioned")
	f(`"unit": "s"`, `"unit": ""`, "its unit is")
	f(`"stat"`, `"vendor-panel"`, "want one of")
	f(`$v`, `$w`, "no variable $w")
	f(`/d/b`, `/d/c`, "a link leads to /d/c")
	f(`"editable": false`, `"editable": true`, "to be edited elsewhere")
	f(`"query": "up"`, `"query": ""`, "asks nobody")
	f(`"legendFormat": "l"`, `"x": "l"`, "or a legend")
}
