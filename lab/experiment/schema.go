package experiment

import (
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// The files whose doc comments become descriptions, so that what an editor
// shows and what the code says cannot drift apart.
//
//go:embed experiment.go measure.go sweep.go load.go scenario.go stage.go request.go call.go step.go flow.go condition.go check.go feed.go websocket.go slo.go fault.go watch.go
var sources embed.FS

// schema is a part of the JSON Schema.
type schema = jsonschema.Schema

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// editors and other tools. It refuses what a schema can see: keys, types,
// forms, and which keys go together. What takes understanding (placeholders
// and feeds, units of percentiles, names of services) only Parse refuses.
func Schema() ([]byte, error) {
	g := &generator{comments: make(map[string]string)}
	if err := g.docComments(); err != nil {
		return nil, fmt.Errorf("describe the experiment schema: %w", err)
	}
	root := g.structure(reflect.TypeFor[Experiment]())
	root.Version = jsonschema.Version
	root.Description = g.comments["Experiment"]
	root.Title = "Loadstone experiment"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the experiment schema: %w", err)
	}
	return append(out, '\n'), nil
}

// LoadSchema returns the JSON Schema of a file that only says what to offer (see
// [LoadFile]): that of an experiment, of which load alone must be there.
func LoadSchema() ([]byte, error) {
	whole, err := Schema()
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(whole, &root); err != nil {
		return nil, fmt.Errorf("describe the load file's schema: %w", err)
	}
	root["title"], root["required"] = "Loadstone load", []string{"load"}
	delete(root, "allOf") // what measure: capacity asks for
	delete(root, "$id")
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the load file's schema: %w", err)
	}
	return append(out, '\n'), nil
}

// generator turns the table of the format into schemas. It writes them out where
// they are used, without definitions: no struct is used twice, but for the steps of
// a group, which refer to a scenario's.
type generator struct {
	comments map[string]string // of types ("Stage") and fields ("Stage.Duration")
}

// describer is a type that describes its form in the file itself.
type describer interface {
	describe(g *generator, t tag) *schema
}

// ruler is a struct that says which of its keys go together.
type ruler interface{ rules(s *schema) }

// docComments takes over the comments of the types and their fields, each as one
// line.
func (g *generator) docComments() error {
	files, err := sources.ReadDir(".")
	if err != nil {
		return err
	}
	line := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, entry := range files {
		source, err := sources.ReadFile(entry.Name())
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), source, parser.ParseComments)
		if err != nil {
			return err
		}
		typeName := ""
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if typ, ok := n.Specs[0].(*ast.TypeSpec); ok {
					typeName = typ.Name.Name
					g.comments[typeName] = line(n.Doc)
				}
			case *ast.Field:
				if len(n.Names) == 1 {
					g.comments[typeName+"."+n.Names[0].Name] = line(n.Doc)
				}
			case *ast.FuncDecl:
				return false
			}
			return true
		})
	}
	return nil
}

// structure is the schema of a struct's keys.
func (g *generator) structure(t reflect.Type) *schema {
	s := &schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, k := range keysOf(t) {
		value := g.value(k.typ, k.tag)
		value.Description = g.comments[t.Name()+"."+k.goName]
		if text, ok := k.tag.Lookup("default"); ok {
			value.Default = defaultOf(text)
		}
		s.Properties.Set(k.name, value)
		if k.need {
			s.Required = append(s.Required, k.name)
		}
		if other := k.tag.Get("beside"); other != "" {
			if s.DependentRequired == nil {
				s.DependentRequired = make(map[string][]string)
			}
			s.DependentRequired[k.name] = []string{other}
		}
	}
	if r, ok := reflect.TypeAssert[ruler](reflect.New(t)); ok {
		r.rules(s)
	}
	return s
}

// defaultOf is a default as a value of JSON.
func defaultOf(text string) any {
	switch kindOf(text) {
	case boolean:
		return text == "true"
	case integer, number:
		return json.Number(text)
	default:
		return text
	}
}

// value is the schema of a key's value.
func (g *generator) value(t reflect.Type, k tag) *schema {
	if d, ok := reflect.TypeAssert[describer](reflect.New(t)); ok {
		return d.describe(g, k)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), k)
	case reflect.Struct:
		if short, ok := reflect.TypeAssert[shorthand](reflect.New(t)); ok && short.shortSchema() != nil {
			return either(short.shortSchema(), g.structure(t))
		}
		return g.structure(t)
	case reflect.Map:
		return g.named(t, k)
	case reflect.Slice:
		if k.has("names") {
			return g.named(t, k)
		}
		return g.list(t, k)
	default:
		return scalarSchema(t, k)
	}
}

// scalarSchema is the schema of a value without parts.
func scalarSchema(t reflect.Type, k tag) *schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		s := &schema{Type: "string", Pattern: durationPattern}
		if k.shortest() > 0 {
			s.Not = &schema{Pattern: `^(0+(\.0+)?[a-zµ]+)+$`}
		}
		return s
	case reflect.TypeFor[Rate]():
		if k.has("bare") {
			return either(&schema{Type: "string", Pattern: ratePattern}, &schema{Type: "number", Minimum: "0"})
		}
		return &schema{Type: "string", Pattern: ratePattern, Not: &schema{Pattern: zeroRate}}
	case reflect.TypeFor[Share]():
		return either(&schema{Type: "string", Pattern: sharePattern}, bounded("number", k))
	}
	switch t.Kind() {
	case reflect.String:
		return textSchema(k)
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return bounded("number", k)
	default:
		return bounded("integer", k)
	}
}

// zeroRate is a rate of 0, which most rates must not be.
const zeroRate = `^0+(\.0+)?/`

// bounded is a number within the bounds of its tags.
func bounded(kind string, k tag) *schema {
	return &schema{Type: kind, Minimum: json.Number(k.Get("min")), Maximum: json.Number(k.Get("max"))}
}

// textSchema is a text as its tags have it.
func textSchema(k tag) *schema {
	form := forms[k.Get("form")]
	switch {
	case form.schema != nil:
		return form.schema()
	case k.has("scalar"):
		return scalars()
	case k.has("enum"):
		return &schema{Type: "string", Enum: words(k.words())}
	case form.pattern == "":
		return &schema{Type: "string", Pattern: nonEmpty}
	}
	return &schema{Type: "string", Pattern: form.pattern, MaxLength: count64(form.longest)}
}

// list is a list, or also one of its items.
func (g *generator) list(t reflect.Type, k tag) *schema {
	item := g.value(t.Elem(), k)
	item.Description = g.comments[t.Elem().Name()]
	s := &schema{Type: "array", Items: item, MinItems: k.count("least"), MaxItems: k.count("most"), UniqueItems: k.has("unique")}
	if k.has("lone") {
		return either(item, s)
	}
	return s
}

// named is a mapping from names.
func (g *generator) named(t reflect.Type, k tag) *schema {
	item := g.value(t.Elem(), k)
	item.Description = g.comments[t.Elem().Name()]
	s := &schema{
		Type: "object", AdditionalProperties: item,
		MinProperties: k.count("least"), MaxProperties: k.count("most"),
	}
	if form := forms[k.Get("names")]; form.pattern != "" {
		s.PropertyNames = &schema{Pattern: form.pattern, MaxLength: count64(form.longest)}
	}
	return s
}

// count is a number of items.
func (t tag) count(name string) *uint64 { return count64(int(t.whole(name, 0))) }

// count64 is a bound of a schema: none for 0.
func count64(n int) *uint64 {
	if n == 0 {
		return nil
	}
	return new(uint64(n))
}

func either(s ...*schema) *schema { return &schema{AnyOf: s} }

// scalars is any text, number or boolean.
func scalars() *schema {
	return either(&schema{Type: "string"}, &schema{Type: "number"}, &schema{Type: "boolean"})
}

// where returns a schema that constrains what a path of keys leads to, wherever
// that is there.
func where(s *schema, path ...string) *schema {
	for _, key := range slices.Backward(path) {
		list := jsonschema.NewProperties()
		list.Set(key, s)
		s = &schema{Properties: list}
	}
	return s
}

// isOneOf is a condition on one property: it is there and one of some words.
func isOneOf(name string, list ...string) *schema {
	s := where(&schema{Enum: words(list)}, name)
	s.Required = []string{name}
	return s
}

// with is that some keys are there.
func with(keys ...string) *schema { return &schema{Required: keys} }

// without is that some keys are not there.
func without(keys ...string) *schema {
	s := &schema{Properties: jsonschema.NewProperties()}
	for _, key := range keys {
		s.Properties.Set(key, jsonschema.FalseSchema)
	}
	return s
}

// exactlyOne has one of some keys be there.
func exactlyOne(keys ...string) []*schema {
	var out []*schema
	for _, key := range keys {
		out = append(out, with(key))
	}
	return out
}

// atMostOne is that no two of some keys are there.
func atMostOne(keys ...string) *schema {
	var two []*schema
	for i, a := range keys {
		for _, b := range keys[:i] {
			two = append(two, with(b, a))
		}
	}
	return &schema{Not: either(two...)}
}

func words(list []string) []any {
	out := make([]any, len(list))
	for i, w := range list {
		out[i] = w
	}
	return out
}
