package experiment

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// The files whose doc comments become descriptions, so that what an editor
// shows and what the code says cannot drift apart.
var (
	//go:embed format.go
	formatSource string
	//go:embed formatload.go
	formatLoadSource string
)

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// editors and other tools. It refuses what a schema can see: keys, types,
// forms, and which keys go together. What takes understanding (placeholders
// and feeds, units of percentiles, names of services) only Parse refuses.
func Schema() ([]byte, error) {
	g := &generator{comments: make(map[string]string)}
	for _, source := range []string{formatSource, formatLoadSource} {
		if err := g.docComments(source); err != nil {
			return nil, fmt.Errorf("describe the experiment schema: %w", err)
		}
	}
	root := g.reflect(reflect.TypeFor[Experiment]())
	root.Version = jsonschema.Version
	root.Title = "Loadstone experiment"
	root.AllOf = append(measureRules(), sizeRules()...)
	refine(root)
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

// docComments takes over the comments of the types ("Stage") and their fields
// ("Stage.Duration") in a Go file, each as one line.
func (g *generator) docComments(source string) error {
	file, err := parser.ParseFile(token.NewFileSet(), "format.go", source, parser.ParseComments)
	if err != nil {
		return err
	}
	line := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
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
			g.comments[typ.Name.Name] = line(general.Doc)
			fields, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					g.comments[typ.Name.Name+"."+name.Name] = line(field.Doc)
				}
			}
		}
	}
	return nil
}

// generator turns the types of the format into schemas. It writes them out
// where they are used, without definitions: no type is used twice but the
// scalars.
type generator struct {
	comments map[string]string
	inFull   reflect.Type // whose own form custom must not replace
}

func (g *generator) reflect(t reflect.Type) *jsonschema.Schema {
	r := &jsonschema.Reflector{
		Anonymous:      true,
		DoNotReference: true,
		Mapper:         g.custom,
		LookupComment: func(t reflect.Type, field string) string {
			if field == "" {
				return g.comments[t.Name()]
			}
			return g.comments[t.Name()+"."+field]
		},
	}
	s := r.ReflectFromType(t)
	s.Version, s.Definitions = "", nil
	return s
}

// custom returns the schema of a type whose form in the file is not that of
// its Go type, or nil.
func (g *generator) custom(t reflect.Type) *jsonschema.Schema {
	switch t {
	case g.inFull:
		return nil
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case reflect.TypeFor[Rate](), reflect.TypeFor[Target]():
		return either(&jsonschema.Schema{Type: "string", Pattern: ratePattern}, &jsonschema.Schema{Type: "number", Minimum: "0"})
	case reflect.TypeFor[Share]():
		return either(&jsonschema.Schema{Type: "string", Pattern: sharePattern}, &jsonschema.Schema{Type: "number", Minimum: "0.001", Maximum: "0.5"})
	case reflect.TypeFor[Variants]():
		overlay := where("services", &jsonschema.Schema{Type: "object"})
		overlay.Type = "object"
		overlay.Description = "A Compose override: {} for the system as it is."
		overlay.PropertyNames = either(&jsonschema.Schema{Enum: words(composeKeys())}, &jsonschema.Schema{Pattern: "^x-"})
		return named(overlay)
	case reflect.TypeFor[Files]():
		one := uint64(1)
		path := &jsonschema.Schema{Type: "string", Pattern: nonEmpty}
		return either(path, &jsonschema.Schema{Type: "array", Items: path, MinItems: &one})
	case reflect.TypeFor[Fault]():
		return g.fault()
	case reflect.TypeFor[Sweep]():
		return g.sweep()
	case reflect.TypeFor[Perturb]():
		s := g.full(t)
		positive(s, "budget")
		return either(&jsonschema.Schema{Type: "boolean"}, s)
	case reflect.TypeFor[Watches]():
		return g.watches()
	case reflect.TypeFor[Offer]():
		return g.offer()
	case reflect.TypeFor[SLO]():
		return slo()
	default:
		return g.customLoad(t)
	}
}

func either(s ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{AnyOf: s} }

// named is a mapping from names that fit a directory.
func named(value *jsonschema.Schema) *jsonschema.Schema {
	one, longest := uint64(1), uint64(maxName)
	return &jsonschema.Schema{
		Type: "object", MinProperties: &one, AdditionalProperties: value,
		PropertyNames: &jsonschema.Schema{Pattern: namePattern, MaxLength: &longest},
	}
}

// refine adds what the types do not say.
func refine(root *jsonschema.Schema) {
	one, longest := uint64(1), uint64(maxName)
	for _, key := range []string{"question", "entry"} {
		s, _ := root.Properties.Get(key)
		s.MinLength = &one
	}
	name, _ := root.Properties.Get("name")
	name.Pattern, name.MaxLength = namePattern, &longest
	profiles, _ := root.Properties.Get("profiles")
	profiles.MinItems = &one
	profiles.Items.Pattern, profiles.Items.MaxLength = namePattern, &longest
	most := uint64(maxFaults)
	faults, _ := root.Properties.Get("faults")
	faults.MaxItems = &most
	search, _ := root.Properties.Get("search")
	positive(search, "budget")
	highest, _ := search.Properties.Get("maxRate")
	highest.AnyOf, highest.Type, highest.Pattern = nil, "string", ratePattern
	highest.Default = "100000/s"
	tolerance, _ := search.Properties.Get("tolerance")
	tolerance.Default = "5%"
}

// positive refuses 0 as the value of durations.
func positive(s *jsonschema.Schema, keys ...string) {
	for _, key := range keys {
		duration, _ := s.Properties.Get(key)
		duration.Not = &jsonschema.Schema{Pattern: `^(0+(\.0+)?[a-zµ]+)+$`}
	}
}

func words(list []string) []any {
	out := make([]any, len(list))
	for i, w := range list {
		out[i] = w
	}
	return out
}
