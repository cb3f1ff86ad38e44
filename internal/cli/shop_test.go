package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/lab/verdict"
)

// openShop copies the shop, which knows nothing of this program.
func openShop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/shop")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// init writes an experiment that can be run as it is.
func TestInitProposesAnExperimentThatCanRun(t *testing.T) {
	dir := openShop(t)
	got := loadstone(t, dir, "init", "--request", "GET /product/{id}")
	if got.code != exitOK || !strings.Contains(got.stdout, "next:  loadstone run experiment.yaml") {
		t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	for file, wants := range map[string][]string{
		"experiment.yaml": {"entry: web\n", "system: [compose.yaml, compose.loadstone.yaml]", "request: GET /product/{id}", "id: {uniform: [1, 1000]}"},
		"compose.loadstone.yaml": {
			"x-process: [node, server.js] # from its Dockerfile", `DATABASE_URL: "postgres://shop@${DB_HOST:-db}:5432/shop"`,
			`REDIS_URL: "redis://${CACHE_HOST:-cache}:6379"`, "  web:\n    deploy: {resources: {limits: {cpus: ",
		},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q:\n%s", file, want, text)
			}
		}
	}
	checked := loadstone(t, dir, "run", "experiment.yaml", "--check")
	for _, want := range []string{"entry       web, port 8117", "api 1 × ", "3 trials: baseline baseline baseline", "time: at least ", " under load, and several times that where answers take a second", "Nothing was started"} { //nolint:dupword // a variant for each trial
		if checked.code != exitOK || !strings.Contains(checked.stdout, want) {
			t.Errorf("run --check: exit status %d, want %q in\n%s%s", checked.code, want, checked.stdout, checked.stderr)
		}
	}
	if strings.Contains(checked.stdout+checked.stderr, "warning:") {
		t.Errorf("run --check warns of what init proposes:\n%s%s", checked.stdout, checked.stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("run --check made a run")
	}
	before, err := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	again := loadstone(t, dir, "init")
	if after, err := os.ReadFile(filepath.Join(dir, "experiment.yaml")); again.code != exitUsage || err != nil || string(after) != string(before) {
		t.Errorf("init a second time: exit status %d, %v: %s", again.code, err, again.stderr)
	}
}

// Two commands lead from a Compose file to a named verdict.
func TestShopFromInitToAVerdict(t *testing.T) {
	servertest.Large(t)
	dir := openShop(t)
	if got := loadstone(t, dir, "init"); got.code != exitOK {
		t.Fatalf("init: exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	got := loadstone(t, dir, "run", "experiment.yaml")
	if got.code != exitOK {
		t.Fatalf("run: exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	v := derivedResult(t, onlyRun(t, dir)).Variants[0]
	if v.Verdict.Status != verdict.Named || v.Verdict.Component != "api" || v.Capacity == nil || v.Capacity.Value <= 0 {
		t.Errorf("got %+v with a capacity of %+v, want api named:\n%s", v.Verdict, v.Capacity, got.stdout)
	}
	nothingLeft(t, "")
}

// One request of each step is shown as it was on the wire, and what it came to.
func TestLoadOnce(t *testing.T) {
	url, dir := shop(t), t.TempDir()
	file := `load:
  scenarios:
    visit:
      executor: constant-vus
      vus: 50
      duration: 10s
      steps:
        - {name: login, request: {method: POST, path: /login, body: '{"name": "x"}'}, extract: {token: {json: token}}}
        - {name: cart, request: {method: GET, path: /cart, headers: {Authorization: "Bearer {token}"}}, think: 1h, checks: {in: {status: 200}}}
`
	if err := os.WriteFile(filepath.Join(dir, "visit.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "load", "visit.yaml", "--target", url, "--once")
	if got.code != exitOK {
		t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	host := strings.TrimPrefix(url, "http://")
	for _, want := range []string{
		"> POST /login HTTP/1.1\n", "> Host: " + host + "\n", "{\"name\": \"x\"}\n", "< HTTP/1.1 200 OK\n", "{\"token\": \"t1\"}\n",
		"> GET /cart HTTP/1.1\n", "> Authorization: Bearer t1\n", "✓ in\n",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if n := strings.Count(got.stdout, "\n> Host: ") + strings.Count(got.stdout, "\n< HTTP/1.1"); n != 4 {
		t.Errorf("want two requests and two answers:\n%s", got.stdout)
	}
	none := loadstone(t, dir, "load", url+"/none", "--once")
	if none.code != exitFailed || !strings.Contains(none.stdout, "< HTTP/1.1 404") || !strings.Contains(none.stderr, "1 × status 404") {
		t.Errorf("a 404: exit status %d:\n%s%s", none.code, none.stdout, none.stderr)
	}
	refused := loadstone(t, dir, "load", "http://127.0.0.1:1/", "--once")
	if refused.code != exitFailed || !strings.Contains(refused.stdout, "* no answer: dial tcp 127.0.0.1:1") {
		t.Errorf("nobody listens: exit status %d:\n%s%s", refused.code, refused.stdout, refused.stderr)
	}
}
