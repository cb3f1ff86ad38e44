package experiment

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"loadstone/lab/fault"
)

// fault does one thing, with the keys that belong to it.
func (g *generator) fault() *jsonschema.Schema {
	s := g.full(reflect.TypeFor[Fault]())
	exactlyOne(s, fault.Kill, fault.Stop, fault.Pause, fault.Exec)
	positive(s, "at", "for", "timeout")
	one := uint64(1)
	for _, key := range []string{fault.Kill, fault.Stop, fault.Pause, "service"} {
		p, _ := s.Properties.Get(key)
		p.Pattern = nonEmpty
	}
	exec, _ := s.Properties.Get(fault.Exec)
	exec.MinItems, exec.Items = &one, scalars()
	instance, _ := s.Properties.Get("instance")
	instance.Maximum = "1000"
	refuse := func(keys ...string) *jsonschema.Schema {
		refused := jsonschema.NewProperties()
		for _, key := range keys {
			refused.Set(key, jsonschema.FalseSchema)
		}
		return &jsonschema.Schema{Properties: refused}
	}
	with := refuse("for")
	with.Required = []string{"service"}
	s.If, s.Then, s.Else = &jsonschema.Schema{Required: []string{fault.Exec}}, with, refuse("service", "timeout")
	return s
}

// watches are the metrics to follow by their names.
func (g *generator) watches() *jsonschema.Schema {
	s := g.reflect(reflect.TypeFor[Watch]())
	one, longest, most := uint64(1), uint64(maxName), uint64(maxWatches)
	service, _ := s.Properties.Get("service")
	service.Pattern = nonEmpty
	metric, _ := s.Properties.Get("metric")
	metric.Pattern = `^[A-Za-z_:][A-Za-z0-9_:]*(\{.*\})?$`
	slo, _ := s.Properties.Get("slo")
	slo.MinItems = &one
	slo.Items.Pattern = `^\s*(min|avg|med|max|p\(\s*[0-9.]+\s*\))\s*(<=|>=|===|==|!=|<|>)\s*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$`
	return &jsonschema.Schema{
		Type: "object", MinProperties: &one, MaxProperties: &most, AdditionalProperties: s,
		PropertyNames: &jsonschema.Schema{Pattern: watchPattern, MaxLength: &longest},
	}
}
