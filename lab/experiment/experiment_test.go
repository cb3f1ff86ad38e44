package experiment_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"loadstone/lab/experiment"
)

func parseGood(t *testing.T, name string) *experiment.Experiment {
	t.Helper()
	path := filepath.Join("testdata/good", name+".yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Parse(path, data)
	if err != nil {
		t.Fatalf("Parse(%s) fails: %v", path, err)
	}
	return e
}

// golden compares got with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// TestPlanResolves pins what every key comes to, defaults and units
// included.
func TestPlanResolves(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything", "everything-else", "results-caching"} {
		e := parseGood(t, name)
		got, err := json.MarshalIndent(map[string]any{
			"measure": e.Measure, "trials": e.Trials, "seed": e.Seed, "search": e.Search,
			"plan": e.Plan(),
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(got)+"\n")
	}
}

func TestVariantsKeepTheirOrderAndText(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "everything")
	var b strings.Builder
	for _, v := range e.Variants {
		b.WriteString("# " + v.Name + "\n")
		b.Write(v.Overlay)
	}
	golden(t, "overlays.yaml", b.String())
}

func TestPosition(t *testing.T) {
	t.Parallel()
	e := parseGood(t, "results-caching")
	tests := []struct {
		path         string
		line, column int
	}{
		{"entry", 4, 8},
		{"variants redis", 7, 3},
		{"variants redis services api", 7, 22},
		{"variants redis services api environment RESULTS_CACHE", 7, 57},
		{"slo http_req_failed 0", 16, 21},
		{"variants memory services", 5, 1}, // as far as it leads
		{"", 1, 1},
	}
	for _, tt := range tests {
		file, line, column := e.Position(strings.Fields(tt.path)...)
		if file != "testdata/good/results-caching.yaml" || line != tt.line || column != tt.column {
			t.Errorf("Position(%s) = %s:%d:%d, want %d:%d", tt.path, file, line, column, tt.line, tt.column)
		}
	}
	got := e.ErrorAt("no such thing; write another", "entry").Error()
	if want := "testdata/good/results-caching.yaml:4:8: no such thing; write another"; got != want {
		t.Errorf("ErrorAt gives %q, want %q", got, want)
	}
}

func TestCheckServices(t *testing.T) {
	t.Parallel()
	const file = `name: x
system: compose.yaml
entry: %ENTRY%
variants:
  plain: {}
  edge: {services: {api: {environment: {A: b}}, %SERVICE%}}
load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}}}
measure: load
trials: 1
`
	tests := []struct{ name, entry, service, want string }{
		{"all known", "lb", "lb: {}", ""},
		{"new with an image", "lb", "cdn: {image: nginx}", ""},
		{"new with a process", "lb", "cdn: {x-process: [./cdn]}", ""},
		{"removed", "lb", "lb: !reset null", ""},
		{"unknown", "lb", "appi: {environment: {A: b}}", `x.yaml:6:49: compose.yaml has no service "appi" for variant "edge" to override; write api, or give it an image, a build or an x-process`},
		{"far from all", "lb", "gateway: {}", `x.yaml:6:49: compose.yaml has no service "gateway" for variant "edge" to override; write one of: api, lb, or give it an image, a build or an x-process`},
		{"misspelt", "lb", "postgers: {}", `x.yaml:6:49: compose.yaml has no service "postgers" for variant "edge" to override; write postgres, or give it an image, a build or an x-process`},
		{"unknown entry", "web", "lb: {}", `x.yaml:3:8: compose.yaml has no service "web" to be the entry; write one of: api, lb`},
		{"entry of one variant only", "cdn", "cdn: {image: nginx}", `x.yaml:3:8: compose.yaml has no service "cdn" to be the entry; write one of: api, lb`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			known := []string{"api", "lb"}
			if tt.name == "misspelt" {
				known = append(known, "postgres")
			}
			e, err := experiment.Parse("x.yaml", []byte(strings.NewReplacer("%ENTRY%", tt.entry, "%SERVICE%", tt.service).Replace(file)))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := e.CheckServices(known); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("CheckServices says %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLoadFindsTheSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/good/steady.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "steady.yaml")
	if _, err := experiment.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no file = %v, want fs.ErrNotExist", err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("steady.yaml", source)
	wantAt := func(place, word string) {
		t.Helper()
		_, err := experiment.Load(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+place) || !strings.Contains(err.Error(), word) {
			t.Errorf("Load = %v, want an error at %s with %q", err, place, word)
		}
	}
	wantAt(":2:9: ", "there is no file "+filepath.Join(dir, "compose.yaml"))
	if err := os.Mkdir(filepath.Join(dir, "compose.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantAt(":2:9: ", "is a directory")
	if err := os.Remove(filepath.Join(dir, "compose.yaml")); err != nil {
		t.Fatal(err)
	}
	write("compose.yaml", []byte("services: {}\n"))
	e, err := experiment.Load(path)
	if err != nil {
		t.Fatalf("Load fails: %v", err)
	}
	if got, want := e.SystemPaths(), filepath.Join(dir, "compose.yaml"); len(got) != 1 || got[0] != want {
		t.Errorf("SystemPaths() = %s, want %s alone", got, want)
	}
	if string(e.Source()) != string(source) {
		t.Errorf("Source() is not the file")
	}
	write("steady.yaml", make([]byte, 200<<10))
	wantAt(":1:1: ", "more than 128 KiB")
}

func TestNotes(t *testing.T) {
	t.Parallel()
	base, err := os.ReadFile("testdata/good/results-caching.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, old, new, want string }{
		{"nothing to say", "", "", ""},
		{"trials that can show a difference", "trials: 6", "trials: 4", ""},
		{"too few trials to compare", "trials: 6", "trials: 3", "3 cannot show which of 2 variants has the higher capacity; that takes 4"},
		{"failures are not judged", "  http_req_failed: [rate<0.001]\n", "", "http_req_failed"},
		{"duration is not used", "      request", "      duration: 5s\n      request", "not used"},
		{"rate is not offered", "      request", "      rate: 500/s\n      request", "500/s of scenario \"lookup\", only says where the search begins"},
		{"search is not used", "measure: capacity", "measure: load\nsearch: {}", "search is not used"},
	}
	for _, tt := range tests {
		source := strings.Replace(string(base), tt.old, tt.new, 1)
		if strings.Contains(source, "measure: load") {
			source = strings.Replace(source, "      request", "      rate: 1/s\n      duration: 5s\n      request", 1)
		}
		e, err := experiment.Parse("x.yaml", []byte(source))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := strings.Join(e.Notes(len(e.Variants)), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: Notes() = %q, want %q", tt.name, got, tt.want)
		}
	}
	e, err := experiment.Parse("x.yaml", []byte(strings.Replace(string(base), "trials: 6", "trials: 1", 1)))
	if err != nil || len(e.Notes(1)) > 0 {
		t.Errorf("one variant is compared with nothing: %q, %v", e.Notes(1), err)
	}
}

// TestParseRefusesHostileInput has what a text file of the table cannot hold.
func TestParseRefusesHostileInput(t *testing.T) {
	t.Parallel()
	var bomb, chain strings.Builder
	bomb.WriteString("a0: &a0 [x]\n")
	chain.WriteString("a0: &a0 [x]\n")
	for i := range 100 {
		ten := strings.Repeat(fmt.Sprintf("*a%d, ", i), 10)
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, ten)
		fmt.Fprintf(&chain, "a%d: &a%d [*a%d]\n", i+1, i+1, i)
	}
	tests := []struct{ name, source, want string }{
		{"not UTF-8", "name: x\nquestion: a\xffb\n", "x.yaml:2:12: the file is not UTF-8 text"},
		{"UTF-16", "\xff\xfen\x00a\x00", "not UTF-8"},
		{"too large", strings.Repeat("#", 200<<10), "more than 128 KiB"},
		{"aliases of aliases", bomb.String(), "fewer aliases of aliases"},
		{"a chain of aliases", chain.String(), "fewer aliases of aliases"},
		{"brackets", strings.Repeat("[", 10_000), "nests too deep"},
		{"closed brackets", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), "nests too deep"},
		{"braces", strings.Repeat("{a: ", 1_000), "nests too deep"},
		{"keys", strings.Repeat("a: b\n", 20_000), "more than an experiment takes"},
		{"dashes", strings.Repeat("- ", 10_000), "nests too deep"},
		{"a tag at the end", "name: !reset", "the tag !reset has no value"},
		{"a name with line breaks", "* 0\r\r0", "x.yaml:1:1: the alias"},
		{"an alias in its own value", "name: &a [*a]\n", "refers to nothing above"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := experiment.Parse("x.yaml", []byte(tt.source))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse fails with %v, want %q", err, tt.want)
			}
		})
	}
}

func TestParseSkipsAByteOrderMark(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/good/steady.yaml")
	if err != nil {
		t.Fatal(err)
	}
	windows := "\ufeff" + strings.ReplaceAll(string(source), "\n", "\r\n")
	e, err := experiment.Parse("x.yaml", []byte(windows))
	if err != nil {
		t.Fatalf("Parse fails: %v", err)
	}
	if _, line, column := e.Position("entry"); line != 3 || column != 8 {
		t.Errorf("entry is at %d:%d, want 3:8", line, column)
	}
}

// Who judges what is lost is told of what a server can say it left out.
func TestNotesOfSkippedMessages(t *testing.T) {
	t.Parallel()
	base, err := os.ReadFile("testdata/good/chat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	judged := regexp.MustCompile("(?m)^ +ws_msgs_skipped:.*\n")
	for name, c := range map[string]struct {
		source string
		want   bool
	}{"judged": {string(base), false}, "not judged": {judged.ReplaceAllString(string(base), ""), true}} {
		e, err := experiment.Parse("x.yaml", []byte(c.source))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(e.Notes(len(e.Variants)), "\n"); strings.Contains(got, "ws_msgs_skipped") != c.want {
			t.Errorf("%s: got %q, want a note: %v", name, got, c.want)
		}
	}
}

// TestObjectivesOfAVariant: what a variant is not offered it need not meet.
func TestObjectivesOfAVariant(t *testing.T) {
	t.Parallel()
	e, err := experiment.Parse("x.yaml", []byte(`name: x
system: compose.yaml
entry: api
variants: {start: {x-load: {scenarios: [start]}}, end: {x-load: {scenarios: [end]}}, all: {}}
load:
  scenarios:
    start: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}
    end: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}
slo:
  http_req_duration{scenario:start}: [avg<129, p(95)<300]
  http_req_duration{scenario:end}: [p(95)<52]
  http_req_failed: [rate<=0]
measure: load
trials: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	for variant, want := range map[string]string{
		"start": "http_req_duration{scenario:start} 2, http_req_failed 1", "end": "http_req_duration{scenario:end} 1, http_req_failed 1",
		"all": "http_req_duration{scenario:start} 2, http_req_duration{scenario:end} 1, http_req_failed 1",
	} {
		var got []string
		for _, o := range e.SLOOf(variant) {
			got = append(got, fmt.Sprint(o.Metric, " ", len(o.Thresholds)))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s must meet %s, want %s", variant, got, want)
		}
	}
	if len(e.SLO) != 3 || len(e.SLO[0].Thresholds) != 2 {
		t.Errorf("the experiment's objectives are %+v now", e.SLO)
	}
}
