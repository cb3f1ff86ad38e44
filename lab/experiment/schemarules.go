package experiment

import (
	"slices"

	"github.com/invopop/jsonschema"

	"loadstone/lab/load"
)

// where returns a schema that constrains one property, wherever it is there.
func where(name string, s *jsonschema.Schema) *jsonschema.Schema {
	list := jsonschema.NewProperties()
	list.Set(name, s)
	return &jsonschema.Schema{Properties: list}
}

// isOneOf is a condition on one property: it is there and one of some words.
func isOneOf(name string, list ...string) *jsonschema.Schema {
	s := where(name, &jsonschema.Schema{Enum: words(list)})
	s.Required = []string{name}
	return s
}

// executorRules say which keys an executor takes, and what its stages end at.
func executorRules() []*jsonschema.Schema {
	var rules []*jsonschema.Schema
	for _, ex := range executors() {
		refused := jsonschema.NewProperties()
		for _, other := range executors() {
			for _, key := range other.takes {
				if !slices.Contains(ex.takes, key) {
					refused.Set(key, jsonschema.FalseSchema)
				}
			}
		}
		rules = append(rules, &jsonschema.Schema{If: isOneOf("executor", ex.name), Then: &jsonschema.Schema{Properties: refused}})
	}
	target := func(s *jsonschema.Schema) *jsonschema.Schema {
		return where("stages", &jsonschema.Schema{Items: where("target", s)})
	}
	rates := func(s *jsonschema.Schema) []*jsonschema.Schema {
		return []*jsonschema.Schema{where("rate", s), where("startRate", s), target(s)}
	}
	var open, closed []string
	for _, ex := range executors() {
		switch {
		case hasRate(ex.name):
			open = append(open, ex.name)
		case !isOpen(ex.name):
			closed = append(closed, ex.name)
		}
	}
	return append(rules,
		&jsonschema.Schema{If: isOneOf("executor", closed...), Then: target(&jsonschema.Schema{Type: "integer"})},
		&jsonschema.Schema{
			If: isOneOf("executor", open...),
			Then: &jsonschema.Schema{
				If:   &jsonschema.Schema{Required: []string{"timeUnit"}},
				Then: &jsonschema.Schema{AllOf: rates(&jsonschema.Schema{Type: "number"})},
				Else: &jsonschema.Schema{AllOf: rates(&jsonschema.Schema{Type: "string"})},
			},
		},
		where("rate", &jsonschema.Schema{Not: either(&jsonschema.Schema{Enum: []any{0}}, &jsonschema.Schema{Type: "string", Pattern: `^0+(\.0+)?/`})}),
	)
}

// workRules say what an iteration is made of: one of request, steps, replay and
// websocket.
func workRules() []*jsonschema.Schema {
	alone := jsonschema.NewProperties()
	for _, key := range ofRequests() {
		alone.Set(key, jsonschema.FalseSchema)
	}
	work := &jsonschema.Schema{}
	exactlyOne(work, "request", "steps", "replay", "websocket")
	weightless := where("steps", &jsonschema.Schema{Items: where("weight", jsonschema.FalseSchema)})
	return []*jsonschema.Schema{
		work,
		{If: isOneOf("executor", load.Replay), Then: &jsonschema.Schema{Required: []string{"replay"}}},
		{If: &jsonschema.Schema{Required: []string{"websocket"}}, Then: &jsonschema.Schema{Properties: alone}},
		{If: &jsonschema.Schema{Required: []string{"request"}}, Then: where("weighted", jsonschema.FalseSchema)},
		{If: &jsonschema.Schema{Not: &jsonschema.Schema{Required: []string{"weighted"}}}, Then: weightless},
	}
}

// measureRules say what each kind of measurement needs.
func measureRules() []*jsonschema.Schema {
	one := uint64(1)
	scenarios := func(s *jsonschema.Schema) *jsonschema.Schema { return where("load", where("scenarios", s)) }
	var open []string
	complete := make([]*jsonschema.Schema, len(executors()))
	for i, ex := range executors() {
		if hasRate(ex.name) {
			open = append(open, ex.name)
		}
		complete[i] = &jsonschema.Schema{If: isOneOf("executor", ex.name), Then: &jsonschema.Schema{Required: ex.needs}}
	}
	search := scenarios(&jsonschema.Schema{
		MaxProperties:        &one,
		AdditionalProperties: where("executor", &jsonschema.Schema{Enum: words(open)}),
	})
	offer, _ := search.Properties.Get("load")
	for _, key := range []string{"k6", "warmup"} {
		offer.Properties.Set(key, jsonschema.FalseSchema)
	}
	search.Required = []string{"slo"}
	search.Properties.Set("slo", &jsonschema.Schema{MinProperties: &one})
	for _, key := range []string{"faults", "watch"} {
		search.Properties.Set(key, jsonschema.FalseSchema)
	}
	written := scenarios(&jsonschema.Schema{AdditionalProperties: &jsonschema.Schema{AllOf: complete}})
	written.Properties.Set("perturb", jsonschema.FalseSchema)
	written.Properties.Set("sweep", where("carry", jsonschema.FalseSchema))
	return []*jsonschema.Schema{
		{If: isOneOf("measure", Capacity), Then: search},
		{If: isOneOf("measure", AsWritten), Then: written},
	}
}

// sizeRules say that variants are listed or swept, and that what is swept has one
// base.
func sizeRules() []*jsonschema.Schema {
	one := uint64(1)
	return []*jsonschema.Schema{
		either(&jsonschema.Schema{Required: []string{"variants"}}, &jsonschema.Schema{Required: []string{"sweep"}}),
		{If: &jsonschema.Schema{Required: []string{"sweep"}}, Then: where("variants", &jsonschema.Schema{MaxProperties: &one})},
	}
}
