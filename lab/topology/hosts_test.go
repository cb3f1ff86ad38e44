package topology

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// two is a system of two services on loopback addresses, with what front is told and how
// many of stock there are.
func two(told, stock string) string {
	return `services:
  front:
    x-process: [/bin/true]
    ` + told + `
    ports: ["8080"]
  stock:
    x-process: [/bin/true]
    ports: ["8081"]
    deploy: {replicas: ` + stock + `}
x-network: loopback
`
}

// wantWarning loads a system and wants the one warning at a place of its file, or none
// if want is empty.
func wantWarning(t *testing.T, text, want string) {
	t.Helper()
	path := composeFile(t, text)
	s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Env: map[string]string{"SET_HOST": "here"}})
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case want == "" && len(s.Warnings) > 0:
		t.Errorf("%s\ngot %q, want no warning", text, s.Warnings)
	case want != "" && (len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], path+want)):
		t.Errorf("%s\ngot %q\nwant one that begins with the file and %q", text, s.Warnings, want)
	}
}

func TestHostNamesOfDockerAreAWarning(t *testing.T) {
	t.Parallel()
	f := func(told, want string) { t.Helper(); wantWarning(t, two(told, "1"), want) }
	f(`environment: {STOCK: "http://stock:8081"}`, ":4:19: service front: stock:8081 is a host name that only Docker resolves; write ${STOCK_HOST:-stock}:8081")
	f(`environment: ["STOCK=http://stock:8081/x"]`, ":4:19: service front: stock:8081 ")
	f(`command: --stock http://stock/x`, ":4:5: service front: stock is a host name")
	f(`environment: {STOCK: "${STOCK_URL:-http://stock:8081}"}`, ":4:19: service front: stock:8081 ")
	f(`environment: {STOCK_ADDR: stock}`, ":4:19: service front: stock is a host name")
	f(`healthcheck: {test: [CMD, curl, "http://front:8080/"]}`, ":4:37: service front: front:8080 ")

	f(`environment: {STOCK: "http://${STOCK_HOST:-stock}:8081"}`, "")
	f(`environment: {STOCK: "http://$STOCK_HOST:8081"}`, "")
	f(`environment: {NAME: stock, KIND: "stock:a", LOGIN: "pg://stock:1234@${STOCK_HOST}/x", OUT: "outstock:8081"}`, "")
	wantWarning(t, strings.Replace(two(`environment: {A: "stock:8081"}`, "1"), "x-process: [/bin/true]", "image: nginx", 1), "") // a recipe's own business
}

func TestUnknownHostVariablesAreAWarning(t *testing.T) {
	t.Parallel()
	f := func(value, want string) {
		t.Helper()
		wantWarning(t, two(`environment: {A: "`+value+`"}`, "1"), want)
	}
	f("${STCK_HOST:-stock}", ":4:19: service front: the variable STCK_HOST is not set, so its value is stock; did you mean ${STOCK_HOST:-stock}?")
	f("${STCK_HOST}", ":4:19: service front: the variable STCK_HOST is not set, so its value is empty; did you mean ${STOCK_HOST:-stock}?")
	f("${BACKEND_HOSTS:-stock}", ":4:19: service front: the variable BACKEND_HOSTS is not set, so its value is stock; did you mean ${STOCK_HOSTS:-stock}?")
	f("${SET_HOST:-stock}", "")
	f("${PUBLIC_HOST:-localhost}", "")
	f("${STOCK_HOST:-stock} ${FRONT_HOSTS:-front} ${BIND_HOST:-0.0.0.0}", "")
	wantWarning(t, strings.Replace(two(`environment: {A: "${STOCK_HOST:-stock}"}`, "1"), "  stock:\n", "  stock:\n    profiles: [more]\n", 1), "")
}

func TestSeveralInstancesOfWhichOneIsNamed(t *testing.T) {
	t.Parallel()
	const one = `environment: {A: "http://${STOCK_HOST:-stock}:8081"}`
	wantWarning(t, two(one, "2"), ":4:19: service front: ${STOCK_HOST} is only the first of several instances of stock: the others receive no requests from here; ${STOCK_HOSTS:-stock} has all addresses, separated by commas")
	wantWarning(t, two(one, "1"), "")
	wantWarning(t, two(`environment: {A: "${STOCK_HOST:-stock}", B: "${STOCK_HOSTS:-stock}"}`, "2"), "")
	wantWarning(t, strings.Replace(two("init: true", "2"), `ports: ["8081"]`, `environment: {A: "${STOCK_HOST}"}`, 1), "") // only itself

	// A size that an overlay brings has the place of the base file.
	path := composeFile(t, two(one, "1"))
	s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte("services: {stock: {deploy: {replicas: 3}}}"), OverlayName: "variant x"})
	if err != nil || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], path+":4:19: ") {
		t.Errorf("got %q, %v, want one warning at %s:4:19", s.Warnings, err, path)
	}
	// An x-process of the base that an overlay replaces is not spoken of.
	path = composeFile(t, strings.Replace(two("init: true", "2"), "[/bin/true]", `[/bin/true, "${STOCK_HOST}", "stock:8081"]`, 1))
	s, err = Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte("services: {front: {x-process: [/bin/false]}}")})
	if err != nil || len(s.Warnings) != 0 {
		t.Errorf("got %q, %v, want no warning", s.Warnings, err)
	}
}

// The system that the README shows can be loaded as it is, without a warning, and
// uses the variables that the text explains.
func TestTheReadmesSystemLoads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n# compose.yaml\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("there is no compose.yaml in the README")
	}
	path := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, overlay := range []string{"", "services: {stock: {deploy: {replicas: 3}}}"} {
		s, err := Load(t.Context(), Config{ComposeFiles: []string{path}, Overlay: []byte(overlay)})
		if err != nil || len(s.Warnings) > 0 {
			t.Fatalf("got %v and %+v", err, s)
		}
		if !slices.ContainsFunc(s.Services, func(s Service) bool { return s.Name == "web" && s.Port == 8080 }) {
			t.Errorf("got %+v, want a service web with the port 8080", s.Services)
		}
	}
	if strings.Count(block, "x-process") < 2 || !strings.Contains(block, "${STOCK_HOSTS:-stock}") || !strings.Contains(block, "${BIND_HOST:-0.0.0.0}") {
		t.Errorf("want two services that find each other in:\n%s", block)
	}
}
