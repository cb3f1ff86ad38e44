package summary_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	describe "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"loadstone/lab/load/summary"
)

var update = flag.Bool("update", false, "write what the tests produce as what they expect")

const schemaFile = "../../../docs/load.schema.json"

// sources are the directories whose doc comments become descriptions, by the package
// of their types: what the schema says and what the code says cannot drift
// apart.
var sources = map[string]string{
	"loadstone/lab/load/summary":   ".",
	"loadstone/lab/load":           "..",
	"loadstone/lab/load/roundtrip": "../roundtrip",
	"loadstone/lab/load/feed":      "../feed",
}

// schemaOf generates the schema from the type. A strict one refuses fields that
// it does not know; the published one does not, because fields may be added.
func schemaOf(t *testing.T, strict bool) []byte {
	t.Helper()
	comments := make(map[string]string)
	for pkg, dir := range sources {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of %s: %v", pkg, err)
		}
		for _, file := range files {
			docComments(t, comments, pkg, file)
		}
	}
	r := &describe.Reflector{
		Anonymous:                 true,
		ExpandedStruct:            true,
		AllowAdditionalProperties: !strict,
		Namer: func(typ reflect.Type) string {
			// The plan and what came of it both have steps, checks and more.
			if short := map[string]string{"ErrorCount": "Error", "CheckResult": "Check", "CacheResult": "Cache", "WebSocketResult": "WebSocket"}[typ.Name()]; short != "" {
				return short
			}
			if typ.PkgPath() == "loadstone/lab/load" && typ.Name() != "Plan" {
				return "Plan" + typ.Name()
			}
			return typ.Name()
		},
		LookupComment: func(typ reflect.Type, field string) string {
			return comments[typ.PkgPath()+"."+typ.Name()+"."+field]
		},
	}
	s := r.ReflectFromType(reflect.TypeFor[summary.Summary]())
	s.Title = "Loadstone load summary"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// docComments adds the comments of the types and fields of a file.
func docComments(t *testing.T, comments map[string]string, pkg, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	line := func(groups ...*ast.CommentGroup) string {
		for _, c := range groups {
			if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
				return text
			}
		}
		return ""
	}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			name := pkg + "." + typ.Name.Name + "."
			comments[name] = line(typ.Doc, general.Doc)
			fields, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				for _, ident := range field.Names {
					comments[name+ident.Name] = line(field.Doc, field.Comment)
				}
			}
		}
	}
}

func compile(t *testing.T, data []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("the schema is not JSON: %v", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("load.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("load.schema.json")
	if err != nil {
		t.Fatalf("the schema does not compile: %v", err)
	}
	return s
}

func TestSchemaIsTheOneInDocs(t *testing.T) {
	t.Parallel()
	got := schemaOf(t, false)
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
		t.Errorf("%s is not what the type says; run go test ./lab/load/summary -args -update", schemaFile)
	}
}

func TestSchemaAcceptsEverySummary(t *testing.T) {
	t.Parallel()
	published, strict := compile(t, schemaOf(t, false)), compile(t, schemaOf(t, true))
	for name, s := range samples(t) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(written(t, s)))
		if err != nil {
			t.Fatalf("%s: WriteJSON writes no JSON: %v", name, err)
		}
		if err := strict.Validate(doc); err != nil {
			t.Errorf("%s: the strict schema refuses it: %v", name, err)
		}
		if err := published.Validate(doc); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
}

func TestSchemaRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s, plain := compile(t, schemaOf(t, false)), written(t, plainLoad(t).summary(t))
	for _, c := range []struct {
		name   string
		damage func(map[string]any)
	}{
		{"no requests", func(m map[string]any) { delete(m, "requests") }},
		{"rate as text", func(m map[string]any) { m["rate"] = "5000/s" }},
		{"another validity", func(m map[string]any) { m["validity"] = "fine" }},
		{"another schema", func(m map[string]any) { m["schema"] = "loadstone.load/2" }},
		{"reasons missing", func(m map[string]any) { m["validity_reasons"] = nil }},
		{"no service time", func(m map[string]any) { m["latency"] = map[string]any{"response": m["latency"]} }},
		{"a quantile above 1", func(m map[string]any) {
			m["percentiles"] = []any{map[string]any{"quantile": 99, "response": 1, "service": 1}}
		}},
	} {
		var doc map[string]any
		if err := json.Unmarshal(plain, &doc); err != nil {
			t.Fatal(err)
		}
		c.damage(doc)
		if s.Validate(doc) == nil {
			t.Errorf("%s: the schema accepts it", c.name)
		}
	}
}

func TestSchemaDescribesEveryField(t *testing.T) {
	t.Parallel()
	var root struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schemaOf(t, false), &root); err != nil {
		t.Fatal(err)
	}
	for name, p := range root.Properties {
		if p.Description == "" {
			t.Errorf("field %s has no description", name)
		}
	}
}

func written(t *testing.T, s *summary.Summary) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
