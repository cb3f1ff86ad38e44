package experiment

import (
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"loadstone/lab/threshold"
)

// customLoad is custom for the types of the load.
func (g *generator) customLoad(t reflect.Type) *jsonschema.Schema {
	path := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: nonEmpty} }
	switch t {
	case reflect.TypeFor[Targets]():
		one := uint64(1)
		url := &jsonschema.Schema{Type: "string", Pattern: `^https?://[^{}? #@]+$`, Examples: []any{"http://127.0.0.1:8080"}}
		return either(url, &jsonschema.Schema{Type: "array", MinItems: &one, Items: url})
	case reflect.TypeFor[Scenarios]():
		return named(g.scenario())
	case reflect.TypeFor[Request]():
		return g.request()
	case reflect.TypeFor[Checks]():
		return &jsonschema.Schema{Type: "object", AdditionalProperties: g.check()}
	case reflect.TypeFor[Extract]():
		e := g.full(t)
		exactlyOne(e, "json", "header")
		return either(path(), e)
	case reflect.TypeFor[Think]():
		two := uint64(2)
		pause := &jsonschema.Schema{Type: "string", Pattern: durationPattern}
		return either(pause, &jsonschema.Schema{Type: "array", Items: pause, MinItems: &two, MaxItems: &two})
	case reflect.TypeFor[K6]():
		k6 := g.full(t)
		env, _ := k6.Properties.Get("env")
		env.AdditionalProperties = scalars()
		env.PropertyNames = &jsonschema.Schema{Pattern: variablePattern}
		return either(path(), k6)
	case reflect.TypeFor[Rows]():
		return either(path(), g.full(t))
	case reflect.TypeFor[Zipf]():
		three := uint64(3)
		return either(&jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "number"}, MinItems: &three, MaxItems: &three}, g.full(t))
	case reflect.TypeFor[Feed]():
		f := g.full(t)
		exactlyOne(f, "uniform", "sequential", "zipf", "csv", "jsonl")
		return f
	case reflect.TypeFor[WebSocket]():
		return g.websocket()
	default:
		return nil
	}
}

// nonEmpty is the form of a line that is not empty.
const nonEmpty = `\S`

// full is the schema of a type's own fields.
func (g *generator) full(t reflect.Type) *jsonschema.Schema {
	inner := &generator{comments: g.comments, inFull: t}
	s := inner.reflect(t)
	s.Description = ""
	return s
}

// exactlyOne has one of some keys be there.
func exactlyOne(s *jsonschema.Schema, keys ...string) {
	for _, key := range keys {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{key}})
	}
}

// offer is scenarios with what goes with them, or a k6 script alone.
func (g *generator) offer() *jsonschema.Schema {
	s := g.full(reflect.TypeFor[Offer]())
	positive(s, "timeout")
	alone := jsonschema.NewProperties()
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if p.Key != "k6" && p.Key != "target" {
			alone.Set(p.Key, jsonschema.FalseSchema)
		}
	}
	s.OneOf = []*jsonschema.Schema{
		{Required: []string{"scenarios"}},
		{Required: []string{"k6"}, Properties: alone},
	}
	return s
}

// scenario is a scenario in which every key belongs to some executor; the
// rules say to which.
func (g *generator) scenario() *jsonschema.Schema {
	s := g.full(reflect.TypeFor[Scenario]())
	one := uint64(1)
	feed, _ := s.Properties.Get("feed")
	feed.PropertyNames = &jsonschema.Schema{Pattern: feedPattern}
	for _, key := range []string{"stages", "steps"} {
		list, _ := s.Properties.Get(key)
		list.MinItems = &one
	}
	positive(s, "duration", "timeUnit", "maxDuration")
	steps, _ := s.Properties.Get("steps")
	refineStep(steps.Items)
	s.AllOf = append(executorRules(), workRules()...)
	return s
}

// refineStep adds what the type of a step does not say.
func refineStep(step *jsonschema.Schema) {
	longest := uint64(maxName)
	name, _ := step.Properties.Get("name")
	name.Pattern, name.MaxLength = namePattern, &longest
	extract, _ := step.Properties.Get("extract")
	extract.PropertyNames = &jsonschema.Schema{Pattern: feedPattern}
}

// request is a line or a mapping.
func (g *generator) request() *jsonschema.Schema {
	full := g.full(reflect.TypeFor[Request]())
	method, _ := full.Properties.Get("method")
	method.Enum = words(methods())
	path, _ := full.Properties.Get("path")
	path.Pattern = pathPattern
	headers, _ := full.Properties.Get("headers")
	var own []*jsonschema.Schema
	for _, name := range ownHeaders() {
		own = append(own, &jsonschema.Schema{Pattern: anyCase(name)})
	}
	headers.PropertyNames = &jsonschema.Schema{Not: either(own...)}
	line := &jsonschema.Schema{Type: "string", Pattern: requestPattern, Examples: []any{"GET /student/{id}"}}
	return either(line, full)
}

// anyCase is a pattern of a word in capitals or not: patterns of a schema have
// no flags.
func anyCase(word string) string {
	var b strings.Builder
	for _, r := range word {
		if lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r)); lower != upper {
			b.WriteString("[" + lower + upper + "]")
		} else {
			b.WriteString(lower)
		}
	}
	return "^" + b.String() + "$"
}

// check is exactly one of its claims.
func (g *generator) check() *jsonschema.Schema {
	c := g.full(reflect.TypeFor[Check]())
	exactlyOne(c, "status", "contains", "json")
	one := uint64(1)
	status := &jsonschema.Schema{Type: "integer", Minimum: "100", Maximum: "599"}
	set := func(key string, s *jsonschema.Schema) {
		old, _ := c.Properties.Get(key)
		s.Description = old.Description
		c.Properties.Set(key, s)
	}
	set("status", either(status, &jsonschema.Schema{Type: "array", Items: status, MinItems: &one}))
	set("contains", either(&jsonschema.Schema{Type: "string", MinLength: &one}, &jsonschema.Schema{Type: "number"}, &jsonschema.Schema{Type: "boolean"}))
	set("json", either(&jsonschema.Schema{Type: "string", Pattern: nonEmpty}, &jsonschema.Schema{Type: "integer"}))
	set("equals", scalars())
	c.DependentRequired = map[string][]string{"equals": {"json"}}
	return c
}

// scalars is any text, number or boolean.
func scalars() *jsonschema.Schema {
	return either(&jsonschema.Schema{Type: "string"}, &jsonschema.Schema{Type: "number"}, &jsonschema.Schema{Type: "boolean"})
}

// websocket is a path, or a mapping.
func (g *generator) websocket() *jsonschema.Schema {
	s := g.full(reflect.TypeFor[WebSocket]())
	for key, example := range map[string]string{"rate": "1/s", "connectRate": "500/s", "slowRate": "1000/s"} {
		rate, _ := s.Properties.Get(key)
		rate.AnyOf, rate.Type, rate.Pattern, rate.Default = nil, "string", ratePattern, example
	}
	protocols, _ := s.Properties.Get("subprotocols")
	one := &jsonschema.Schema{Type: "string", Pattern: nonEmpty}
	protocols.AnyOf = []*jsonschema.Schema{one, {Type: "array", Items: one}}
	protocols.Type, protocols.Items = "", nil
	path, _ := s.Properties.Get("path")
	path.Pattern = pathPattern
	s.DependentRequired = map[string][]string{
		"rate": {"message"}, "senders": {"message"}, "deliver": {"message"}, "arrivals": {"message"}, "slowRate": {"slowClients"},
	}
	reconnect, _ := s.Properties.Get("reconnect")
	reconnect.Description = g.comments["WebSocket.Reconnect"]
	positive(reconnect, "after", "most")
	return either(&jsonschema.Schema{Type: "string", Pattern: pathPattern}, s)
}

// slo lists the metrics, each with the thresholds that suit it, with and
// without a selector.
func slo() *jsonschema.Schema {
	one := uint64(1)
	s := &jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema,
		PatternProperties: make(map[string]*jsonschema.Schema),
	}
	for _, metric := range allMetrics() {
		expression := &jsonschema.Schema{Type: "string", Pattern: expressionPattern(metric), Examples: []any{threshold.Example(metric)}}
		long := &jsonschema.Schema{
			Type: "object", Required: []string{"threshold"}, Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema,
			DependentRequired: map[string][]string{"delayAbortEval": {"abortOnFail"}},
		}
		long.Properties.Set("threshold", expression)
		long.Properties.Set("abortOnFail", &jsonschema.Schema{Type: "boolean", Description: "Ends the load once the threshold does not hold."})
		long.Properties.Set("delayAbortEval", &jsonschema.Schema{Type: "string", Pattern: durationPattern, Description: "How much of the load is measured before that."})
		list := &jsonschema.Schema{Type: "array", MinItems: &one, Description: metricMeanings()[metric], Items: either(expression, long)}
		s.Properties.Set(metric, list)
		if _, err := threshold.Parse(metric+"{scenario:a}", threshold.Example(metric)); err == nil {
			s.PatternProperties["^"+metric+`\s*\{.+\}$`] = list
		}
	}
	return s
}

// expressionPattern is the form of a metric's thresholds, as package threshold
// parses them.
func expressionPattern(metric string) string {
	var forms []string
	for _, word := range []string{"avg", "min", "med", "max", "count", "rate"} {
		if _, err := threshold.Parse(metric, word+"<1"); err == nil {
			forms = append(forms, word)
		}
	}
	if _, err := threshold.Parse(metric, "p(95)<1"); err == nil {
		forms = append(forms, `p\(\s*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)\s*\)`)
	}
	value := `[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`
	if _, err := threshold.Parse(metric, "rate<2"); err != nil && forms[0] == "rate" {
		value = `(0+(\.[0-9]+)?|1(\.0+)?|[0-9]+(\.[0-9]+)?[eE]-[0-9]+)`
	}
	return `^\s*(` + strings.Join(forms, "|") + `)\s*(===|==|!=|<=|>=|<|>)\s*` + value + `(\s+over\s+([0-9]+(\.[0-9]+)?(ms|s|m|h))+)?\s*$`
}

// metricMeanings says of every metric what it is.
func metricMeanings() map[string]string {
	return map[string]string{
		threshold.HTTPReqDuration:   "Response time in ms, from the intended start of a request to the end of its answer: avg, min, med, max, p(N).",
		threshold.HTTPReqService:    "Service time in ms, from when a request was sent to the end of its answer: avg, min, med, max, p(N).",
		threshold.HTTPReqFailed:     "The share of requests that failed or were dropped, 0 to 1: rate.",
		threshold.HTTPReqs:          "Requests sent and ended: count, or rate per second.",
		threshold.Iterations:        "Iterations begun and ended: count, or rate per second. Where an iteration is one request, the same as http_reqs.",
		threshold.DroppedIterations: "Arrivals that were never sent because no virtual user came free in time: count, or rate per second.",
		threshold.Checks:            "The share of checks that held, 0 to 1: rate.",
		threshold.DataSent:          "Bytes sent: count, or rate per second.",
		threshold.DataReceived:      "Bytes received: count, or rate per second.",
		threshold.WSConnecting:      "How long a WebSocket connection took to open, in ms: avg, min, med, max, p(N).",
		threshold.WSMsgDuration:     "How long a message took to a client, in ms: avg, min, med, max, p(N).",
		threshold.WSSessions:        "WebSocket connections opened: count, or rate per second.",
		threshold.WSMsgsSent:        "WebSocket messages sent: count, or rate per second.",
		threshold.WSMsgsReceived:    "WebSocket messages received: count, or rate per second.",
	}
}
