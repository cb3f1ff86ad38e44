package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/process"
	"loadstone/lab/experiment"
)

const checked = `name: a
system: compose.yaml
entry: web
variants:
  one: {}
  two: {services: {web: {environment: {A: b}}}}
  OTHER
load: {scenarios: {s: {executor: constant-arrival-rate, request: GET /}}}
slo: {http_req_duration: [p(95)<100]}
measure: capacity
trials: 2
`

// checkOf checks an experiment with a Compose file and a third variant, and returns
// what is wrong, with the directory taken out.
func checkOf(t *testing.T, compose, other string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"compose.yaml": compose, "experiment.yaml": strings.Replace(checked, "OTHER", other, 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exp, err := experiment.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": os.Getenv("PATH")}
	d := process.Driver{Settings: driver.Settings{Env: env}}
	k := &execution{Config: Config{Experiment: exp, Variants: []string{"one", "two", "three"}, Driver: d, Env: env}}
	err = k.check(t.Context())
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
}

func TestMistakesOfASystemAreFoundBeforeItStarts(t *testing.T) {
	t.Parallel()
	const good = "services:\n  web:\n    x-process: [/bin/true]\n    ports: [\"8080\"]\n"
	f := func(compose, other, want string) {
		t.Helper()
		got := checkOf(t, compose, other)
		if want == "" && got != nil || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s%s\ngot %q\nwant one that begins with %q", compose, other, got, want)
		}
	}
	f(good, "three: {}", "")
	f(strings.Replace(good, "/bin/true", "./shopp", 1), "three: {}", "compose.yaml:3:5: service web: there is no program shopp; build it")
	f(strings.Replace(good, "/bin/true", "no-such-program", 1), "three: {}", "compose.yaml:3:5: service web: there is no program no-such-program on the PATH")
	f(strings.Replace(good, "/bin/true", `"${DATA_VOLUME:-/data}/server"`, 1)+"    volumes: [data:/data]\nvolumes: {data: {}}\n", "three: {}", "") // only the start will tell
	f("services:\n  web:\n    x-process: [/bin/true]\n", "three: {}", `compose.yaml:2:3: service web takes the load and publishes no port; write ports: ["8080"]`)
	f(good+"    deploy:\n      replicas: 0\n", "three: {}", "compose.yaml:6:7: service web takes the load and has no instance")
	f(good+"    depends_on: [stok]\n", "three: {}", `compose.yaml:5:18: service "web" depends on undefined service "stok"`)
	f(strings.Replace(good, "x-process", "x-prcess", 1), "three: {}", "compose.yaml:3:5: service web: x-prcess is not a known key; write x-process")

	f(good, "three: {services: {web: {cpus: -1}}}", "experiment.yaml:7:34: variant three: service web: cpus is -1")

	// What a variant brings is a mistake of the experiment file.
	f(good, "three: {services: {web: {cpus: abc}}}", `experiment.yaml:7:34: variant three: services.web.cpus: "abc" is no number for this key`)
	f(good, "three: {services: {web: {x-process: [./none]}}}", "experiment.yaml:7:28: variant three: service web: there is no program none")
}
