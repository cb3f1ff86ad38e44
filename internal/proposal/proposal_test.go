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
