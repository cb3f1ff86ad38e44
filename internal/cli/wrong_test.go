package cli

import (
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
)

var updateWrong = flag.Bool("update", false, "write what the program says to wrong input again; read it as a person would")

// badServer has this test's own program serve in one of the ways of serveBadly.
const badServer = "LOADSTONE_TEST_SERVER"

func serveBadly(how string) int {
	address := net.JoinHostPort(os.Getenv("BIND_HOST"), "8080")
	status := http.StatusOK
	switch how {
	case "404":
		status = http.StatusNotFound
	case "500":
		status = http.StatusInternalServerError
	case "elsewhere":
		address = "127.0.0.1:8099"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if how == "hang" {
			time.Sleep(time.Hour)
		}
		w.WriteHeader(status)
	}))
	return 1
}

// wrong is an input that cannot be carried out.
type wrong struct {
	name  string
	args  string
	files map[string]string // beside the good ones
	slow  bool              // it takes half a minute until it is known to be wrong
}

// goodFiles are what every wrong input is one mistake away from. Its network is that of any
// user: of those of instances' own, which root gets, other sentences are said.
func goodFiles() map[string]string {
	return map[string]string{
		"compose.yaml": `services:
  web:
    image: example/web
    x-process: [sleep, "60"]
    ports: ["8080"]
    deploy: {resources: {limits: {cpus: "0.5"}}}
x-network: loopback
`,
		"experiment.yaml": `name: wrong
system: compose.yaml
entry: web
variants: {one: {}}
load:
  timeout: 1s
  scenarios:
    browse:
      executor: constant-arrival-rate
      request: GET /item/{id}
      feed: {id: {uniform: [1, 1000]}}
slo: {http_req_duration: [p(95)<200]}
measure: capacity
trials: 1
`,
		"load.yaml": `load:
  scenarios:
    browse: {executor: constant-vus, vus: 1, duration: 1s, request: "GET /{user.id}", feed: {user: {csv: users.csv}}}
`,
		"users.csv": "id,name\n1,Ann\n",
	}
}

// edited is a good file with one piece of it in another way.
func edited(file, old, with string) map[string]string {
	text := goodFiles()[file]
	if !strings.Contains(text, old) {
		panic(file + " has no " + old)
	}
	return map[string]string{file: strings.Replace(text, old, with, 1)}
}

// with is files with one more.
func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

func server(how string) map[string]string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return edited("compose.yaml", `x-process: [sleep, "60"]`, "x-process: ["+self+"]\n    environment: {"+badServer+": \""+how+"\"}")
}

const (
	runIt  = "run experiment.yaml"
	loadIt = "load load.yaml --target http://127.0.0.1:1"
	anyURL = "load http://127.0.0.1:1/ "
)

func wrongInputs() []wrong {
	compose := func(name, old, with string) wrong {
		return wrong{name: "compose: " + name, args: runIt, files: edited("compose.yaml", old, with)}
	}
	exp := func(name, old, with string) wrong {
		return wrong{name: "experiment: " + name, args: runIt, files: edited("experiment.yaml", old, with)}
	}
	file := func(name, old, with string) wrong {
		return wrong{name: "load file: " + name, args: loadIt, files: edited("load.yaml", old, with)}
	}
	flags := func(name, args string) wrong { return wrong{name: "flags: " + name, args: args} }
	return []wrong{
		exp("no such Compose file", "system: compose.yaml", "system: compse.yaml"),
		compose("indented wrongly", "    ports:", "   ports:"),
		compose("a misspelt key", "ports:", "prots:"),
		compose("no port", "    ports: [\"8080\"]\n", ""),
		compose("neither image nor program", "    image: example/web\n    x-process: [sleep, \"60\"]\n", ""),
		compose("x-process misspelt", "x-process:", "x-proces:"), //nolint:misspell // that is the mistake
		compose("a program that is not there", `[sleep, "60"]`, "[./web]"),
		compose("a program that is not installed", `[sleep, "60"]`, "[webd, --port, \"8080\"]"),
		compose("a limit in words", `cpus: "0.5"`, "cpus: half"),
		compose("services that wait for each other", "    ports:", "    depends_on: [web]\n    ports:"),
		compose("an image without a recipe", "    x-process: [sleep, \"60\"]\n", ""),
		compose("a dependency that is not there", "    ports:", "    depends_on: [db]\n    ports:"),
		exp("a misspelt key", "variants:", "varaints:"), //nolint:misspell // that is the mistake
		exp("a misspelt entry", "entry: web", "entry: wed"),
		exp("a variant of a service that is not there", "{one: {}}", "{one: {services: {api: {deploy: {replicas: 2}}}}}"),
		exp("a rate without a unit", "request:", "rate: 500\n      request:"),
		exp("a path without a slash", "GET /item/{id}", "GET item/{id}"),
		exp("a whole URL", "GET /item/{id}", "GET http://web:8080/item/{id}"),
		exp("a threshold in words", "p(95)<200", "p95 below 200"),
		exp("another measure", "measure: capacity", "measure: throughput"),
		exp("a placeholder without values", "GET /item/{id}", "GET /item/{id}/{page}"),
		exp("no trials", "trials: 1", "trials: 0"),
		exp("the version of HTTP", "GET /item/{id}", "GET /item/{id} HTTP/1.1"),
		exp("a URL for a path", "request: GET /item/{id}", "request: {method: GET, url: \"/item/{id}\"}"),
		exp("no service", "entry: web\n", ""),
		exp("a negative number", "{one: {}}", "{one: {services: {web: {deploy: {replicas: -1}}}}}"),
		exp("a tab", "  timeout: 1s", "\ttimeout: 1s"),
		exp("the same variant twice", "{one: {}}", "{one: {}, one: {}}"),
		exp("an objective of gRPC without calls", "http_req_duration: [p(95)<200]", "grpc_req_duration: [p(95)<200]"),
		exp("an objective on values that nobody extracts", "http_req_duration: [p(95)<200]", `"extracted{value:queue}": [p(95)<200]`),
		exp("a selector without quotes", "http_req_duration: [p(95)<200]", "http_req_duration{step:item}: [p(95)<200]"),
		exp("gRPC over HTTP/1.1", "request: GET /item/{id}\n      feed: {id: {uniform: [1, 1000]}}", "steps: [{name: item, grpc: shop.v1.Items/Get}]"),
		exp("a method of gRPC with a dot", "request: GET /item/{id}\n      feed: {id: {uniform: [1, 1000]}}", "steps: [{name: item, grpc: shop.v1.Items.Get}]"),
		{name: "experiment: a directory", args: "run ."},
		exp("an executor of another name", "constant-arrival-rate", "constant-rate"),
		{name: "experiment: no such file", args: "run experment.yaml"},
		{name: "experiment: a Compose file", args: "run compose.yaml"},
		{name: "load file: no target", args: "load load.yaml"},
		file("an executor of k6 that is not here", "constant-vus", "externally-controlled"),
		file("a time without a unit", "duration: 1s", "duration: 1"),
		file("a misspelt column", "{user.id}", "{user.ib}"),
		file("no column", "{user.id}", "{user}"),
		file("no such CSV file", "users.csv", "user.csv"),
		{name: "feed: a row too short", args: loadIt, files: map[string]string{"users.csv": "id,name\n1,Ann\n2\n"}},
		{name: "feed: empty", args: loadIt, files: map[string]string{"users.csv": ""}},
		{name: "feed: broken quotes", args: loadIt, files: map[string]string{"users.csv": "id,name\n1,\"Ann\n"}},
		{name: "feed: a misspelt column in a flag", args: "load http://127.0.0.1:1/{user.nosuch} --feed user=csv:users.csv"},
		{name: "feed: no such file in a flag", args: "load http://127.0.0.1:1/{id} --feed id=csv:ids.csv"},
		{name: "feed: no column in a flag", args: "load http://127.0.0.1:1/{user} --feed user=csv:users.csv"},
		{name: "feed: numbers the wrong way round", args: "load http://127.0.0.1:1/{id} --feed id=uniform:9..1"},
		flags("wrk's duration", anyURL+"-d 30s"),
		flags("wrk's connections", anyURL+"-c 50"),
		flags("wrk's threads", anyURL+"-t 4"),
		flags("hey's duration", anyURL+"-z 30s"),
		flags("users", anyURL+"--users 10"),
		flags("a misspelt flag", anyURL+"--thresold x"),
		flags("a time without a unit", anyURL+"--duration 5"),
		flags("a rate without a unit", anyURL+"--rate 500"),
		flags("users in words", anyURL+"--vus ten"),
		flags("a threshold without a metric", anyURL+"--threshold p(95)<200"),
		flags("a URL without its scheme", "load localhost:8080"),
		flags("a variant that is not there", runIt+" --variants two"),
		flags("no CPU for each", runIt+" --cpus-each 0"),
		flags("no experiment", "run"),
		flags("generators of another form", runIt+" --driver attach --generators http://a"),
		flags("generators in the cluster of another driver", runIt+" --driver docker --generators kubernetes://2"),
		flags("no generators in the cluster", runIt+" --driver kubernetes --generators kubernetes://0"),
		flags("generators in the cluster and elsewhere", runIt+" --driver kubernetes --generators local,kubernetes://2"),
		{name: "flags: generators in the cluster that read a large file", args: runIt + " --driver kubernetes --generators kubernetes://2", files: with(
			edited("experiment.yaml", "{id}\n      feed: {id: {uniform: [1, 1000]}}", "{user.id}\n      feed: {user: {csv: users.csv}}"), "users.csv", "id\n"+strings.Repeat("1\n", 1<<20))},
		flags("a misspelt command", "runn experiment.yaml"),
		flags("two models at once", anyURL+"--rate 5/s --vus 3"),
		flags("a stage of another form", anyURL+"--stages 30s-100"),
		flags("a header without a colon", anyURL+"-H Accept"),
		flags("a body that is not there", anyURL+"--body-file body.json"),
		flags("a directory that is not there", anyURL+"--json out/load.json"),
		flags("another scheme", "load ftp://127.0.0.1/"),
		flags("a run that is not there", "report nowhere"),
		flags("a directory that is no run", "report ."),
		flags("a system that is not there", "up nowhere"),
		{name: "init: no Compose file", args: "init nowhere.yaml"},
		{name: "init: what is there is kept", args: "init"},
		{name: "program: it crashes", args: runIt, files: edited("compose.yaml", `[sleep, "60"]`, `[sh, -c, "echo reading config.toml; echo there is no config.toml >&2; exit 3"]`)},
		{name: "program: nobody listens", args: anyURL + "--iterations 2 -q"},
		{name: "program: it answers 404", args: runIt, files: server("404")},
		{name: "program: it answers 500", args: runIt, files: server("500"), slow: true},
		{name: "program: it never answers", args: runIt, files: server("hang"), slow: true},
		{name: "program: it listens elsewhere", args: runIt, files: server("elsewhere"), slow: true},
	}
}

// What is said to wrong input is in a golden file, for people to read: each is a sentence
// that says what is wrong, where, and what to write.
func TestWrongInput(t *testing.T) {
	const golden = "testdata/wrong.golden"
	text, err := os.ReadFile(golden)
	if err != nil && !*updateWrong {
		t.Fatal(err)
	}
	want := map[string]string{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		name, said, _ := strings.Cut(strings.TrimPrefix(section, "## "), "\n")
		want[name] = strings.TrimSpace(said)
	}
	all := wrongInputs()
	got := make([]string, len(all))
	t.Run("each", func(t *testing.T) {
		for i, w := range all {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				if w.slow && !*updateWrong {
					servertest.Large(t)
				}
				got[i] = w.say(t)
				if !*updateWrong && got[i] != want[w.name] {
					t.Errorf("got\n%s\nwant\n%s", got[i], want[w.name])
				}
			})
		}
	})
	if *updateWrong && !t.Failed() {
		var b strings.Builder
		for i, w := range all {
			fmt.Fprintf(&b, "## %s\n%s\n\n", w.name, got[i])
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// say is what the program says to the input, with what differs from run to run left out.
func (w *wrong) say(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := goodFiles()
	maps.Copy(files, w.files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ended := loadstone(t, dir, strings.Fields(w.args)...)
	if ended.code == exitOK {
		t.Errorf("exit status 0:\n%s", ended.stdout)
	}
	if ended.code == exitUsage && strings.Count(ended.stderr, "\n") != 1 {
		t.Errorf("more than a sentence:\n%s", ended.stderr)
	}
	said := ended.stderr
	if ended.code == exitFailed { // what is done meanwhile is told there too
		lines := strings.SplitAfter(said, "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "loadstone: ") })
		said = strings.Join(lines[max(at, 0):], "")
	}
	said = strings.ReplaceAll(strings.ReplaceAll(said, dir+"/", ""), dir, ".")
	for _, r := range []struct{ form, with string }{
		{`127\.(7[0-9]|[89][0-9]|1[0-9]{2}|2[0-9]{2})\.[0-9]+\.[0-9]+`, "127.N.N.N"},
		{`\b[0-9]{8}-[0-9]{6}-`, "TIME-"},
		{`\b[0-9]+ × `, "N × "},
		{`, [0-9]+ s after`, ", N s after"},
		{`every request failed: [0-9]+ ×`, "every request failed: N ×"},
	} {
		said = regexp.MustCompile(r.form).ReplaceAllString(said, r.with)
	}
	return fmt.Sprintf("$ loadstone %s\nexit status %d\n%s", w.args, ended.code, strings.TrimSpace(said))
}
