package proposal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// write makes files below a directory of the test's own.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func propose(t *testing.T, c Config, files map[string]string) (*Proposal, error) {
	t.Helper()
	c.ComposeFile = filepath.Join(write(t, files), "compose.yaml")
	var err error
	if c.System, err = topology.Load(t.Context(), topology.Config{ComposeFiles: []string{c.ComposeFile}}); err != nil {
		t.Fatal(err)
	}
	return New(c)
}

func TestEntry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ compose, want string }{
		"the only port":       {`services: {db: {image: postgres}, api: {image: a, ports: ["80"]}}`, "api"},
		"nobody waits for it": {`services: {api: {image: a, ports: ["81"]}, site: {image: b, ports: ["80"], depends_on: [api]}}`, "site"},
		"by its name":         {`services: {api: {image: a, ports: ["81"]}, gateway: {image: b, ports: ["80"]}}`, "gateway"},
	} {
		p, err := propose(t, Config{Cores: 2}, map[string]string{"compose.yaml": c.compose})
		if err != nil || p.Entry != c.want || p.Why == "" {
			t.Errorf("%s: got %+v, %v; want %s", name, p, err, c.want)
		}
	}
	none := map[string]string{"compose.yaml": "services: {db: {image: postgres}}"}
	if _, err := propose(t, Config{Cores: 2}, none); err == nil || !strings.Contains(err.Error(), `write ports: ["8080"]`) {
		t.Errorf("no port: got %v", err)
	}
	if _, err := propose(t, Config{Cores: 2, Entry: "dc"}, none); err == nil || !strings.Contains(err.Error(), "the services are db") {
		t.Errorf("no such service: got %v", err)
	}
}

// One way of finding others for all: where a name may be in a program, variables for the rest
// would leave it found nowhere.
func TestNamesInPrograms(t *testing.T) {
	t.Parallel()
	const own, told = "x-network: own\n", `PLANNER_URL: "http://${PLANNER_HOST:-planner}:8000"`
	compose := func(more string) string {
		return `services:
  gateway:
    build: .
    ports: ["8080"]
    environment: {PLANNER_URL: "http://planner:8000"}
    depends_on: {planner: {condition: service_started}` + more + `}
  planner: {build: .}
  fares: {build: .}
`
	}
	const fares = ", fares: {condition: service_started}"
	for name, c := range map[string]struct {
		compose  string
		possible bool
		has, not []string // in the override
		untold   string
	}{
		"all are told":        {compose(""), true, []string{told}, []string{own}, ""},
		"one is not":          {compose(fares), true, []string{own, "gateway depends on fares, and no variable says"}, []string{told, "PLANNER_HOST"}, "fares"},
		"no networks":         {compose(fares), false, []string{told}, []string{own}, "fares"},
		"it is to be done":    {compose(", fares: {condition: service_completed_successfully}"), true, []string{told}, []string{own}, ""},
		"its own choice":      {"x-network: loopback\n" + compose(fares), true, []string{told}, []string{own}, "fares"},
		"by its own variable": {strings.Replace(compose(fares), `"http://planner:8000"`, `"http://planner:8000", FARES: "$${FARES_HOST:-fares}"`, 1), true, []string{told}, []string{own}, ""},
	} {
		p, err := propose(t, Config{Cores: 2, Without: []string{"gateway", "planner", "fares"}, OwnNetworks: func() bool { return c.possible }}, map[string]string{
			"compose.yaml": strings.ReplaceAll(c.compose, "$${", "${"), "Dockerfile": "FROM node\nCMD [\"node\", \"server.js\"]\n",
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := p.Override()
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is in\n%s", name, not, text)
			}
		}
		if got := strings.Join(p.Untold["gateway"], " "); got != c.untold {
			t.Errorf("%s: untold are %q, want %q", name, got, c.untold)
		}
	}
}

// What is proposed leaves what a file has said, and finds what it has not.
func TestWhatIsBuiltAndWhatIsLimited(t *testing.T) {
	t.Parallel()
	p, err := propose(t, Config{Cores: 4, Without: []string{"api", "old", "odd"}, Request: "GET /item/{id}"}, map[string]string{
		"compose.yaml": `services:
  web: {image: nginx, ports: ["80"], deploy: {resources: {limits: {cpus: "0.5"}}}}
  api:
    build: ./api
    environment: ["DB=postgres://u:$${PW}@db:5432/x", MODE=fast, "PEERS=old:1,odd:2"]
  old: {build: {context: ., dockerfile: old/Dockerfile}, environment: {CACHE_HOST: db, NOTE: the db is slow}}
  odd: {build: ./odd}
  db: {image: postgres, deploy: {replicas: 2}}
`,
		"api/Dockerfile": "FROM node AS build\nCMD [\"npm\", \"test\"]\nFROM node\nENTRYPOINT [\"node\", \"--enable-source-maps\"]\nCMD [\"server.js\"]\n",
		"old/Dockerfile": "FROM python\nCMD [\"python3\", \"main.py\", \"--name\", \"a b\"]\n",
		"odd/Dockerfile": "FROM alpine\nCMD exec odd $FLAGS\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	override := p.Override()
	for _, want := range []string{
		`x-process: [node, "--enable-source-maps", server.js]`, `x-process: [python3, main.py, "--name", "a b"]`, "# x-process: [PROGRAM, ARGUMENT]",
		"${DB_HOST:-db}:5432/x", `PEERS: "${OLD_HOST:-old}:1,${ODD_HOST:-odd}:2"`, `CACHE_HOST: "${DB_HOST:-db}"`, `cpus: "0.25"`,
	} {
		if !strings.Contains(override, want) {
			t.Errorf("no %q in\n%s", want, override)
		}
	}
	for _, not := range []string{"  web:", "MODE", "NOTE"} {
		if strings.Contains(override, not) {
			t.Errorf("%q is in\n%s", not, override)
		}
	}
	p.Name = "001"
	if text := p.Experiment("e.yaml", "o.yaml"); !strings.Contains(text, "feed:\n        id: {uniform: [1, 1000]}") || !strings.Contains(text, "system: [compose.yaml, o.yaml]") || !strings.Contains(text, "name: \"001\"") {
		t.Errorf("got\n%s", text)
	}
}
