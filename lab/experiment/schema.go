package experiment

import (
	_ "embed"
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

// formatSource is the file whose doc comments become descriptions, so that
// what an editor shows and what the code says cannot drift apart.
//
//go:embed format.go
var formatSource string

// Schema returns the JSON Schema (draft 2020-12) of the experiment file, for
// editors and other tools. It refuses what a schema can see: keys, types,
// forms, and which keys go together. What takes understanding (placeholders
// and feeds, units of percentiles, names of services) only Parse refuses.
func Schema() ([]byte, error) {
	comments, err := docComments(formatSource)
	if err != nil {
		return nil, fmt.Errorf("describe the experiment schema: %w", err)
	}
	g := &generator{comments: comments}
	root := g.reflect(reflect.TypeFor[Experiment]())
	root.Version = jsonschema.Version
	root.Title = "Loadstone experiment"
	root.AllOf = measureRules()
	refine(root)
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the experiment schema: %w", err)
	}
	return append(out, '\n'), nil
}

// docComments returns the comments of the types ("Stage") and their fields
// ("Stage.Duration") in a Go file, each as one line.
func docComments(source string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "format.go", source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string)
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
			out[typ.Name.Name] = line(general.Doc)
			fields, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					out[typ.Name.Name+"."+name.Name] = line(field.Doc)
				}
			}
		}
	}
	return out, nil
}

// generator turns the types of the format into schemas. It writes them out
// where they are used, without definitions: no type is used twice but the
// scalars.
type generator struct{ comments map[string]string }

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
	case reflect.TypeFor[Scenarios]():
		return named(g.scenario())
	case reflect.TypeFor[SLO]():
		return slo()
	case reflect.TypeFor[Request]():
		return g.request()
	default:
		return nil
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
	for _, key := range []string{"question", "system", "entry"} {
		s, _ := root.Properties.Get(key)
		s.MinLength = &one
	}
	name, _ := root.Properties.Get("name")
	name.Pattern, name.MaxLength = namePattern, &longest
	offer, _ := root.Properties.Get("load")
	positive(offer, "timeout")
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

// scenario is a scenario in which every key belongs to some executor; the
// rules say to which.
func (g *generator) scenario() *jsonschema.Schema {
	s := g.reflect(reflect.TypeFor[Scenario]())
	one := uint64(1)
	feed, _ := s.Properties.Get("feed")
	feed.PropertyNames = &jsonschema.Schema{Pattern: feedPattern}
	feed.AdditionalProperties.MinProperties, feed.AdditionalProperties.MaxProperties = &one, &one
	stages, _ := s.Properties.Get("stages")
	stages.MinItems = &one
	positive(s, "duration", "timeUnit")
	s.AllOf = executorRules()
	return s
}

// request is a line or a mapping.
func (g *generator) request() *jsonschema.Schema {
	// A type without Request's name is not custom, and has its fields.
	type request Request
	full := g.reflect(reflect.TypeFor[request]())
	full.Description = ""
	for pair := full.Properties.Oldest(); pair != nil; pair = pair.Next() {
		field, _ := reflect.TypeFor[Request]().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, pair.Key) })
		pair.Value.Description = g.comments["Request."+field.Name]
	}
	method, _ := full.Properties.Get("method")
	method.Enum = words(methods())
	path, _ := full.Properties.Get("path")
	path.Pattern = pathPattern
	line := &jsonschema.Schema{Type: "string", Pattern: requestPattern, Examples: []any{"GET /student/{id}"}}
	return either(line, full)
}

// slo lists the metrics, each with the thresholds that suit it.
func slo() *jsonschema.Schema {
	one := uint64(1)
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, metric := range metricNames(true) {
		forms := slices.Clone(aggregations(metric))
		for i, form := range forms {
			if form == "p(N)" {
				forms[i] = `p\(\s*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)\s*\)`
			}
		}
		value := numberPattern
		if metric == HTTPReqFailed {
			value = `(0+(\.[0-9]+)?|1(\.0+)?|[0-9]+(\.[0-9]+)?[eE]-[0-9]+)`
		}
		s.Properties.Set(metric, &jsonschema.Schema{
			Type: "array", MinItems: &one, Description: metricMeanings()[metric],
			Items: &jsonschema.Schema{
				Type:     "string",
				Pattern:  `^\s*(` + strings.Join(forms, "|") + `)\s*(` + operatorPattern + `)\s*` + value + `\s*$`,
				Examples: []any{exampleOf(metric)},
			},
		})
	}
	return s
}

// metricMeanings says of every metric what it is.
func metricMeanings() map[string]string {
	return map[string]string{
		HTTPReqDuration:   "Response time in ms, from the intended start of a request to the end of its answer: avg, min, med, max, p(N).",
		HTTPReqFailed:     "The share of arrivals that failed or were dropped, 0 to 1: rate.",
		HTTPReqs:          "Requests sent and ended: count, or rate per second.",
		Iterations:        "The same as http_reqs: an iteration is one request.",
		DroppedIterations: "Arrivals that were never sent because no virtual user came free in time: count, or rate per second.",
	}
}
