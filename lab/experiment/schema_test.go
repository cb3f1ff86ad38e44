package experiment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"loadstone/lab/experiment"
)

const schemaFile = "../../docs/experiment.schema.json"

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := experiment.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("the schema is not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("experiment.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("experiment.schema.json")
	if err != nil {
		t.Fatalf("the schema does not compile: %v", err)
	}
	return s
}

// validate returns what the schema says to a YAML file; ok is false if the
// file has no JSON form to look at.
func validate(s *jsonschema.Schema, source []byte) (ok bool, err error) {
	asJSON, err := yaml.YAMLToJSON(source)
	if err != nil {
		return false, nil //nolint:nilerr // not the schema's word
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return false, nil //nolint:nilerr // not the schema's word
	}
	return true, s.Validate(doc)
}

func TestSchemaIsTheOneInDocs(t *testing.T) {
	t.Parallel()
	got, err := experiment.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what Schema returns; run go test ./lab/experiment -update", schemaFile)
	}
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	t.Parallel()
	s := compileSchema(t)
	for _, pattern := range []string{"testdata/good/*.yaml", "../../system/*/experiments/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Errorf("found %d files of %s (%v), want some", len(paths), pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasPrefix(data, []byte("services:")) || bytes.Contains(data, []byte("\nservices:")) {
				continue // a Compose file that experiments merge over another
			}
			if _, err := experiment.Parse(path, data); err != nil {
				t.Errorf("Parse(%s) fails: %v", path, err)
			}
			if ok, err := validate(s, data); err != nil || !ok {
				t.Errorf("the schema refuses %s: %v", path, err)
			}
		}
	}
}

// TestSchemaRefusesBadFiles is not parallel: with -update it writes the files
// that another test reads and writes.
func TestSchemaRefusesBadFiles(t *testing.T) {
	s := compileSchema(t)
	seen := 0
	for _, f := range badFiles(t) {
		ok, err := validate(s, []byte(f.source))
		blind := err == nil
		if *update {
			f.blind = blind
			f.save(t)
			continue
		}
		if blind != f.blind {
			t.Errorf("the schema is blind to %s (%v, JSON: %v), want %v", f.path, blind, ok, f.blind)
		}
		if !blind {
			seen++
		}
	}
	if least := 100; !*update && seen < least {
		t.Errorf("the schema refuses %d bad files, want at least %d", seen, least)
	}
}

// TestSchemaHasTheKeysOfParse adds a key that nobody knows to every part of a
// file: the keys that Parse names instead must be those of the schema.
func TestSchemaHasTheKeysOfParse(t *testing.T) {
	t.Parallel()
	data, err := experiment.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root schemaNode
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	scenario := root.in("load").in("scenarios").AdditionalProperties.node(t)
	const file = `zzzzzzzz: 1
search: {zzzzzzzz: 1}
sweep: {zzzzzzzz: 1}
faults: [{zzzzzzzz: 1}]
watch: {w: {zzzzzzzz: 1}}
  zzzzzzzz: 1
    a: {executor: ramping-arrival-rate, zzzzzzzz: 1, stages: [{zzzzzzzz: 1}], request: {zzzzzzzz: 1}, feed: {x: {zzzzzzzz: 1}}}
    b: {executor: none, zzzzzzzz: 1}
    c: {executor: constant-vus, steps: [{zzzzzzzz: 1, extract: {x: {zzzzzzzz: 1}}, checks: {ok: {zzzzzzzz: 1}}}], feed: {y: {zipf: {zzzzzzzz: 1}}, z: {csv: {zzzzzzzz: 1}}}}
    d: {executor: replay, replay: {zzzzzzzz: 1}}
    e: {executor: constant-vus, websocket: {zzzzzzzz: 1, reconnect: {zzzzzzzz: 1}}}
  tls: {zzzzzzzz: 1}
`
	socket := scenario.in("websocket").AnyOf[1]
	step := scenario.in("steps").Items.node(t)
	fed := scenario.in("feed").AdditionalProperties.node(t)
	var all strings.Builder
	// One line at a time, as there is a limit to the errors of one file.
	for line := range strings.Lines(file) {
		head := ""
		if strings.HasPrefix(line, "    ") {
			head = "load: {scenarios: {"
			line = strings.TrimRight(line, "\n") + "}}\n"
		} else if strings.HasPrefix(line, "  ") {
			head = "load: {"
			line = strings.TrimRight(line, "\n") + "}\n"
		}
		_, err := experiment.Parse("x.yaml", []byte(head+line))
		if err == nil {
			t.Fatalf("Parse accepts a key that nobody knows in %s", line)
		}
		all.WriteString(err.Error() + "\n")
	}
	said := all.String()
	for place, want := range map[string]schemaNode{
		`the experiment has`:    root,
		`search has`:            root.in("search"),
		`sweep has`:             root.in("sweep"),
		`fault 1 has`:           root.in("faults").Items.node(t),
		`metric "w" has`:        root.in("watch").AdditionalProperties.node(t),
		`load has`:              root.in("load"),
		`scenario "b" has`:      scenario,
		`stage 1 has`:           scenario.in("stages").Items.node(t),
		`the request has`:       scenario.in("request").AnyOf[1],
		`feed "x" has`:          scenario.in("feed").AdditionalProperties.node(t),
		`step 1 has`:            step,
		`what is extracted has`: step.in("extract").AdditionalProperties.node(t).AnyOf[1],
		`check "ok" has`:        step.in("checks").AdditionalProperties.node(t),
		`zipf has`:              fed.in("zipf").AnyOf[1],
		`csv has`:               fed.in("csv").AnyOf[1],
		`replay has`:            scenario.in("replay"),
		`websocket has`:         socket,
		`reconnect has`:         socket.in("reconnect"),
		`tls has`:               root.in("load").in("tls"),
	} {
		_, list, found := strings.Cut(said, place+` no key "zzzzzzzz"; write one of: `)
		if !found {
			t.Errorf("Parse does not say what %q: %v", place, said)
			continue
		}
		list, _, _ = strings.Cut(list, "\n")
		got := strings.Split(list, ", ")
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(want.Properties)); !slices.Equal(got, want) {
			t.Errorf("%s the keys %v in Parse and %v in the schema", place, got, want)
		}
	}
}

// schemaNode is as much of a schema as the tests look at.
type schemaNode struct {
	Properties           map[string]schemaNode `json:"properties"`
	AdditionalProperties rawNode               `json:"additionalProperties"`
	Items                rawNode               `json:"items"`
	AnyOf                []schemaNode          `json:"anyOf"`
	Default              any                   `json:"default"`
	Description          string                `json:"description"`
}

func (n schemaNode) in(key string) schemaNode { return n.Properties[key] }

// rawNode is a schema or a boolean.
type rawNode struct{ json.RawMessage }

func (r rawNode) node(t *testing.T) schemaNode {
	t.Helper()
	var n schemaNode
	if err := json.Unmarshal(r.RawMessage, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSchemaStatesTheDefaults holds the defaults that the schema shows to
// those that Parse fills in.
func TestSchemaStatesTheDefaults(t *testing.T) {
	t.Parallel()
	data, err := experiment.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root schemaNode
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	e := parseGood(t, "results-caching")
	scenario := root.in("load").in("scenarios").AdditionalProperties.node(t)
	s := e.Load.Scenarios[0]
	for _, tt := range []struct {
		key       string
		got, want any
	}{
		{"seed", root.in("seed").Default, float64(e.Seed)},
		{"load.timeout", root.in("load").in("timeout").Default, e.Load.Timeout.String()},
		{"search.budget", root.in("search").in("budget").Default, e.Search.Budget.String()},
		{"search.tolerance", root.in("search").in("tolerance").Default, fmt.Sprintf("%g%%", 100*e.Search.Tolerance)},
		{"search.maxRate", root.in("search").in("maxRate").Default, fmt.Sprintf("%.0f/s", e.Search.MaxRate)},
		{"startTime", scenario.in("startTime").Default, s.StartTime.String()},
		{"gracefulStop", scenario.in("gracefulStop").Default, s.GracefulStop.String()},
		{"arrivals", scenario.in("arrivals").Default, s.Arrivals},
	} {
		if tt.got != tt.want {
			t.Errorf("the default of %s is %v in the schema and %v in Parse", tt.key, tt.got, tt.want)
		}
	}
	for name, part := range map[string]schemaNode{
		"a scenario": scenario, "load": root.in("load"), "slo": root.in("slo"), "a step": scenario.in("steps").Items.node(t),
		"a websocket": scenario.in("websocket").AnyOf[1], "a feed": scenario.in("feed").AdditionalProperties.node(t),
	} {
		if len(part.Properties) == 0 {
			t.Errorf("the schema of %s has no keys", name)
		}
		for key, n := range part.Properties {
			if n.Description == "" {
				t.Errorf("the schema does not describe %s of %s", key, name)
			}
		}
	}
	for _, want := range []string{fmt.Sprint(s.PreAllocatedVUs), fmt.Sprint(s.MaxVUs)} {
		if text := scenario.in("preAllocatedVUs").Description + scenario.in("maxVUs").Description; !strings.Contains(text, want) {
			t.Errorf("the schema does not mention the default %s", want)
		}
	}
}

// TestLoadSchema: a file that only offers load is valid by its schema, and one
// with a mistake is not.
func TestLoadSchema(t *testing.T) {
	t.Parallel()
	data, err := experiment.LoadSchema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("load.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("load.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"load": {"scenarios": {"a": {"executor": "constant-vus", "vus": 1, "duration": "1s", "request": "GET /"}}}}`: true,
		`{"load": {"scenarios": {"a": {"executor": "constant-vuz", "vus": 1, "duration": "1s", "request": "GET /"}}}}`: false,
		`{"slo": {}}`: false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != want {
			t.Errorf("%s: got %v, want valid %v", text, err, want)
		}
	}
}
