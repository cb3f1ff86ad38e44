package experiment_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/lab/experiment"
)

func TestParseLoad(t *testing.T) {
	t.Parallel()
	l, err := experiment.ParseLoad("dir/x.yaml", []byte(`load:
  target: http://127.0.0.1:8080
  warmup: 2s
  scenarios:
    a: {executor: constant-vus, vus: 2, duration: 10s, request: "GET /{user.name}", feed: {user: {csv: users.csv}}}
slo:
  http_req_duration{step:a}: [{threshold: p(95)<200, abortOnFail: true, delayAbortEval: 5s}]
seed: 7
`))
	if err != nil {
		t.Fatal(err)
	}
	p := l.Plan()
	if len(p.Targets) != 1 || p.Targets[0] != "http://127.0.0.1:8080" || p.Warmup != 2*time.Second || p.Seed != 7 || p.Timeout != 5*time.Second {
		t.Errorf("the plan is %+v", p)
	}
	if got, want := p.Scenarios[0].Feed["user"].CSV.Path, "dir/users.csv"; got != want {
		t.Errorf("the rows are those of %s, want %s", got, want)
	}
	got := l.SLO.Thresholds()
	if len(got) != 1 || got[0].Step != "a" || !got[0].AbortOnFail || got[0].DelayAbortEval != 5*time.Second || !l.SLO.OnWindows() {
		t.Errorf("the thresholds are %+v, on windows %v", got, l.SLO.OnWindows())
	}
	if got := l.SLO.LongestWait(); got != 200*time.Millisecond {
		t.Errorf("the longest wait is %v, want 200ms", got)
	}
}

// TestParseLoadOfAnExperiment has the load of an experiment file that is whole:
// what else it says is not looked at.
func TestParseLoadOfAnExperiment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything", "everything-else", "ramp", "steady"} {
		data, err := os.ReadFile("testdata/good/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		l, err := experiment.ParseLoad("testdata/good/"+name+".yaml", data)
		if err != nil {
			t.Errorf("ParseLoad(%s) fails: %v", name, err)
			continue
		}
		checkValid(t, l)
		if e := parseGood(t, name); len(l.Plan().Scenarios) != len(e.Plan().Scenarios) || l.Seed != e.Seed {
			t.Errorf("ParseLoad(%s) reads another load than Parse", name)
		}
	}
	l, err := experiment.ParseLoad("x.yaml", []byte("load: {k6: {script: a.js, env: {A: 1}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if k6 := l.Offer.K6; k6 == nil || k6.Script != "a.js" || k6.Env["A"] != "1" {
		t.Errorf("the k6 script is %+v", k6)
	}
}

func TestParseLoadRefuses(t *testing.T) {
	t.Parallel()
	capacity, err := os.ReadFile("testdata/good/results-caching.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ source, want string }{
		"no load":          {"seed: 1\n", "x.yaml:1:1: the file has no load; write load: "},
		"another key":      {"lod: {}\n", `x.yaml:1:1: the file has no key "lod"; write load`},
		"thresholds":       {"load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}}}\nthresholds: {}\n", "x.yaml:2:1: the file has no key \"thresholds\"; write them under slo"},
		"a load to search": {string(capacity), `scenario "lookup" has no rate; write rate: 100/s`},
		"a bad slo":        {"load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}}}\nslo: {dropped_iterations: [count<1]}\n", "x.yaml:2:7: dropped_iterations is not produced by virtual users"},
		"a text":           {"load\n", "x.yaml:1:1: the file must have keys"},
		"nothing":          {"", "x.yaml:1:1: the file is empty"},
	} {
		_, err := experiment.ParseLoad("x.yaml", []byte(c.source))
		var errs experiment.Errors
		if !errors.As(err, &errs) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ParseLoad fails with %v, want %q", name, err, c.want)
		}
	}
}

// TestLoadOnlyLooksAtFiles has every file that a load can name be missing, and
// then be wrong.
func TestLoadOnlyLooksAtFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "load.yaml")
	if _, err := experiment.LoadOnly(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadOnly of no file = %v, want fs.ErrNotExist", err)
	}
	write := func(name, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("load.yaml", `load:
  tls: {caFile: ca.pem}
  scenarios:
    a:
      executor: constant-vus
      vus: 1
      duration: 1s
      request: GET /{user.name}/{key}
      feed:
        user: {csv: users.csv}
        key: {jsonl: {file: keys.jsonl, column: key}}
    b: {executor: replay, replay: {log: access.log}}
`)
	expect := func(wants ...string) {
		t.Helper()
		_, err := experiment.LoadOnly(path)
		var errs experiment.Errors
		if !errors.As(err, &errs) || len(errs) != len(wants) {
			t.Fatalf("LoadOnly fails with %v, want %d errors", err, len(wants))
		}
		for i, want := range wants {
			if got := errs[i].Error(); !strings.HasPrefix(got, path+want) {
				t.Errorf("error %d is %s, want %s%s", i, got, path, want)
			}
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	expect(
		":2:17: there is no file "+in("ca.pem")+"; write the path of a file of PEM certificates, relative to this file",
		":10:21: there is no file "+in("users.csv"),
		":11:29: there is no file "+in("keys.jsonl"),
		":12:41: there is no file "+in("access.log"),
	)
	write("ca.pem", "x")
	write("access.log", "x")
	write("users.csv", "nome,email\nAda,ada@example.org\n")
	write("keys.jsonl", `{"kex": 1}`+"\n")
	expect(
		":8:16: "+in("users.csv")+` has no column "name" for {user.name}; write`,
		":11:9: feed \"key\": ",
	)
	write("users.csv", "name,email\nAda,ada@example.org\n")
	write("keys.jsonl", `{"key": 1}`+"\n")
	if _, err := experiment.LoadOnly(path); err != nil {
		t.Errorf("LoadOnly fails: %v", err)
	}
	if err := errors.Join(os.Remove(in("access.log")), os.Mkdir(in("access.log"), 0o700)); err != nil {
		t.Fatal(err)
	}
	expect(":12:41: " + in("access.log") + " is a directory")
}

func TestOneRequest(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "everything-else")
	want := map[string]bool{"account": false, "browse": true, "yesterday": true}
	for _, s := range e.Load.Scenarios {
		if want, ok := want[s.Name]; ok && s.OneRequest() != want {
			t.Errorf("scenario %s makes one request an iteration: %v, want %v", s.Name, !want, want)
		}
	}
	if !e.Load.Secure() || parseGood(t, "steady").Load.Secure() {
		t.Error("an experiment is secure if its load has tls, and only then")
	}
}
