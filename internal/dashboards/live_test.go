package dashboards

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/internal/cli"
	"loadstone/lab/driver"
	"loadstone/lab/driver/process"
	"loadstone/lab/topology"
)

// The test binary is also the program that the Compose file calls loadstone.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "internal" || slices.ContainsFunc(systems, func(m *monitored) bool { return m.name == os.Args[1] })) {
		os.Exit(cli.Main(cli.ProcessEnv()))
	}
	os.Exit(m.Run())
}

// start brings a system and its monitoring up as processes and returns the addresses of its
// services' first instances.
func start(t *testing.T, m *monitored) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	for dir := base; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) { // PostgreSQL has a user of its own
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(base, "prometheus")
	if err := os.CopyFS(config, os.DirFS(m.dir("prometheus"))); err != nil {
		t.Fatal(err)
	}
	hurry(t, filepath.Join(config, "prometheus.yml"))
	env := map[string]string{"PATH": filepath.Join(root, ".tools", "bin") + ":" + os.Getenv("PATH"), "HOME": base}
	for name, value := range m.env {
		env[name] = strings.ReplaceAll(value, "%[2]s", base)
	}
	// A receiver of menus' changes that does not answer. The other systems have none.
	const receiver = "kitchen http://127.0.0.1:1/ whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
	if err := os.WriteFile(filepath.Join(base, "webhooks"), []byte(receiver), 0o600); err != nil {
		t.Fatal(err)
	}
	system, err := topology.Load(t.Context(), topology.Config{
		ComposeFiles: []string{filepath.Join(root, "system", m.name, "compose.yaml")}, Profiles: []string{"monitoring"},
		Overlay: fmt.Appendf(nil, m.overlay, config), OverlayName: "the test's overlay", Env: env,
	})
	if err != nil {
		t.Fatal(err)
	}
	d := process.Driver{Settings: driver.DefaultSettings(), Self: os.Args[0], Shim: []string{os.Args[0], "internal", "shim"}}
	d.Env, d.Guardian = env, []string{os.Args[0], "internal", "guardian"}
	err = d.Check(t.Context(), system)
	if _, lacking := os.Stat(filepath.Join(root, ".tools/bin/cadvisor")); err == nil && m.containers {
		err = lacking // the system can do without, its dashboards cannot
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	running, err := d.Up(t.Context(), driver.Config{System: system, LogDir: filepath.Join(base, "logs"), VolumeDir: filepath.Join(base, "volumes")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if machine, _ := d.Machine(t.Context()); m.containers && machine.CgroupVersion == 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must be able to make control groups")
		}
		t.Skip("control groups cannot be made here: there are no figures of containers")
	}
	at := map[string]string{}
	for _, in := range running.Instances() {
		if at[in.Service] == "" {
			at[in.Service] = in.Host
		}
	}
	return at
}

// hurry makes Prometheus evaluate every second, so that the test need not wait
// as long as a person. It scrapes as often as it is shipped: on a busy machine who is
// scraped may take more than a second to answer, and would be missing.
func hurry(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const line = "evaluation_interval: 5s"
	if !strings.Contains(string(text), line) {
		t.Fatalf("%s has no %q", file, line)
	}
	fast := strings.Replace(string(text), line, "evaluation_interval: 1s", 1)
	if err := os.WriteFile(file, []byte(fast), 0o600); err != nil {
		t.Fatal(err)
	}
}

// client asks the parts of the system, and trusts the certificate that the system made
// for itself. Ten seconds, for a question to Prometheus on a busy machine.
var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // a loopback address
}}

// visit asks for what there is and what there is not, and for pages, until ctx ends. It
// is the one client, so its rate is bounded by its pause.
func (m *monitored) visit(ctx context.Context, host string) {
	for i := 0; ctx.Err() == nil; i++ {
		for _, path := range m.paths {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(m.base+path, host, 1+i%500), http.NoBody)
			if err != nil {
				return
			}
			req.Close = true // a connection each, as of students who look once
			resp, err := client.Do(req)
			if err != nil {
				continue // the checks say what is missing
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// patience is how long what is to come may take on a busy machine.
const patience = 5 * time.Minute

// prometheus is one that runs.
type prometheus struct{ base string }

// series are the label sets of an answer.
type series []map[string]string

func (p prometheus) get(path string, query url.Values, data any) error {
	resp, err := client.Get(p.base + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

func (p prometheus) query(expr string) (series, error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var all series
	for _, r := range data.Result {
		all = append(all, r.Metric)
	}
	return all, nil
}

var (
	legendPattern = regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	// substitutes are what Grafana would put there: four scrape intervals, and
	// the value for All.
	substitutes = strings.NewReplacer("$__rate_interval", "20s", "$instance", ".+", "$service", ".+")
)

// check is one query of a dashboard or a rule.
type check struct {
	where, expr string
	// legend names labels that every series of the answer must have; empty for
	// a rule. Only a dashboard's query has to have an answer.
	legend string
	rule   bool
}

// ask says what is wrong with it, or nil.
func (p prometheus) ask(c check) error {
	expr := substitutes.Replace(c.expr)
	found, err := p.query(expr)
	if err != nil {
		return fmt.Errorf("%s: Prometheus refuses %s: %w", c.where, c.expr, err)
	}
	names := selectors(expr)
	if len(names) == 0 {
		return fmt.Errorf("%s: %s asks for nothing", c.where, c.expr)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "ALERTS") {
			continue // Prometheus's own, and only while an alert is pending
		}
		if there, err := p.query("count(" + name + ")"); err != nil {
			return fmt.Errorf("%s: Prometheus refuses %s: %w", c.where, name, err)
		} else if len(there) == 0 {
			return fmt.Errorf("%s: nothing exports %s", c.where, name)
		}
	}
	if c.rule {
		return nil
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: no answer to %s", c.where, c.expr)
	}
	for _, label := range legendPattern.FindAllStringSubmatch(c.legend, -1) {
		for _, s := range found {
			if s[label[1]] == "" {
				return fmt.Errorf("%s: the legend wants the label %s, which %v of %s does not have", c.where, label[1], s, c.expr)
			}
		}
	}
	return nil
}

// checks are all queries that there are.
func checks(t *testing.T, m *monitored) []check {
	t.Helper()
	var all []check
	for name, d := range dashboards(t, m) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				all = append(all, check{where: name + ": " + p.Title, expr: q.Expr, legend: q.LegendFormat})
			}
		}
		for _, v := range d.Templating.List {
			inner, ok := strings.CutPrefix(v.Query.Query, "label_values(")
			expr, label, two := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
			if !ok || !two {
				t.Errorf("%s: variable %s: %q is no label_values(SERIES, LABEL)", name, v.Name, v.Query.Query)
			}
			all = append(all, check{where: name + ": variable " + v.Name, expr: expr, legend: "{{" + label + "}}"})
		}
	}
	for _, r := range rules(t, m) {
		all = append(all, check{where: "rule " + r.Record + r.Alert, expr: r.Expr, rule: true})
		if r.Record == "" {
			continue
		}
		var labels []string
		for key, value := range r.Labels {
			labels = append(labels, fmt.Sprintf("%s=%q", key, value))
		}
		all = append(all, check{where: "what is recorded", expr: r.Record + "{" + strings.Join(labels, ",") + "}"})
	}
	return all
}

// TestEveryQueryIsAnswered starts the whole of each system, one after the other, and asks
// everything that dashboards, rules and alerts ask.
func TestEveryQueryIsAnswered(t *testing.T) {
	for _, m := range systems {
		t.Run(m.name, func(t *testing.T) { everyQueryIsAnswered(t, m) })
	}
}

func everyQueryIsAnswered(t *testing.T, m *monitored) {
	t.Helper()
	at := start(t, m)
	ctx, stop := context.WithCancel(t.Context())
	var visits sync.WaitGroup
	visits.Go(func() { m.visit(ctx, at["lb"]) })
	defer visits.Wait()
	defer stop()
	p := prometheus{"http://" + at["prometheus"] + ":9090"}

	wrong := checks(t, m)
	t.Logf("%d queries", len(wrong))
	for deadline := time.Now().Add(patience); ; {
		wrong = slices.DeleteFunc(wrong, func(c check) bool { return p.ask(c) == nil })
		if len(wrong) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(500 * time.Millisecond) // a poll
	}
	for _, c := range wrong {
		if err := p.ask(c); err != nil { // it may have come meanwhile
			t.Error(err)
		}
	}
	wantTargets(t, m, p)
	wantRules(t, m, p)

	// What is planted must be found.
	for _, c := range []check{
		{expr: "rate(no_such_metric_total[1m])", rule: true},
		{expr: `http_requests_total{job="nowhere"}`, rule: true},
		{expr: "up or no_such_metric_total", legend: "{{job}}"},
		{expr: "up", legend: "{{service}}"},
		{expr: "sum(up", rule: true},
		{expr: "vector(1)", rule: true},
		{expr: "up > 2", legend: "{{job}}"},
	} {
		if p.ask(c) == nil {
			t.Errorf("nothing is said to be wrong with %s", c.expr)
		}
	}
}

// wantTargets waits until all that are scraped answer, and says which do not.
func wantTargets(t *testing.T, m *monitored, p prometheus) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		missing := missingTargets(t, m, p)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Error(strings.Join(missing, "; "))
			return
		}
	}
}

// missingTargets says which of the scraped do not answer now.
func missingTargets(t *testing.T, m *monitored, p prometheus) (missing []string) {
	t.Helper()
	up, err := p.query("up == 1")
	if err != nil {
		return []string{err.Error()}
	}
	copies := map[string]int{}
	for _, s := range up {
		copies[s["job"]]++
	}
	var config struct {
		Jobs []struct {
			Name string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	read(t, m.dir("prometheus/prometheus.yml"), &config)
	for _, job := range config.Jobs {
		if copies[job.Name] == 0 {
			missing = append(missing, fmt.Sprintf("nothing of job %s is scraped", job.Name))
		}
	}
	if copies[m.twice] != 2 {
		missing = append(missing, fmt.Sprintf("%d copies of %s are scraped, want both", copies[m.twice], m.twice))
	}
	return missing
}

// wantRules says which rules Prometheus could not evaluate.
func wantRules(t *testing.T, m *monitored, p prometheus) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name      string `json:"name"`
				Health    string `json:"health"`
				LastError string `json:"lastError"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := p.get("/api/v1/rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(rules(t, m)); n != want {
		t.Errorf("Prometheus has %d rules, want %d", n, want)
	}
}
