package experiment

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"loadstone/block/spelling"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// Variants are the variants in the order of the file.
type Variants []Variant

// Variant is the system with one Compose override applied.
type Variant struct {
	Name string
	// Overlay is the override as YAML, with the interpolations and the Compose
	// tags (!reset, !override) of the file and with its aliases resolved.
	Overlay []byte
	// Load is x-load: nil for all of the load.
	Load *VariantLoad

	root *node // what Overlay says
	load pair  // x-load
}

// composeKeys returns the top-level keys that the Compose Specification has.
func composeKeys() []string {
	return []string{"services", "networks", "volumes", "configs", "secrets", "models", "include", "name", "version"}
}

func (to *Variants) read(f field) {
	if f.n.kind != mapping || len(f.n.pairs) == 0 {
		f.wrong(f.tag.Get("list"))
		return
	}
	for _, p := range f.n.pairs {
		forms["variant"].check(f.decoder, p.key)
		f.overlay(p)
		override := *p.value
		override.pairs = slices.DeleteFunc(slices.Clone(override.pairs), func(p pair) bool { return p.key.text == loadKey })
		v := Variant{Name: p.key.text, Overlay: override.appendYAML(nil), root: &override}
		if x, ok := p.value.pair(loadKey); ok {
			v.load = x
			if s := f.section(x.value, x.key, loadKey, loadKey+": {scenarios: [lookup]}"); s != nil {
				v.Load = &VariantLoad{}
				s.read(v.Load)
			}
		}
		*to = append(*to, v)
	}
}

// loadKey is the key of a variant that says what of the load it gets. It is an extension
// field, so that what stays is a Compose override.
const loadKey = "x-load"

// checkLoads checks which scenarios variants get.
func (e *Experiment) checkLoads(s *section) {
	var known []string
	for i := range e.Load.Scenarios {
		known = append(known, e.Load.Scenarios[i].Name)
	}
	for _, v := range e.Variants {
		if v.Load == nil {
			continue
		}
		names, _ := v.load.value.pair("scenarios")
		for i, name := range v.Load.Scenarios {
			n := names.value
			if n.kind == list {
				n = n.items[i]
			}
			if !slices.Contains(known, name) {
				s.errorf(n, "load has no scenario %s for variant %s; %s", spelling.Quote(name), spelling.Quote(v.Name), spelling.Choose(name, known))
			}
		}
		if e.Load.K6 != nil {
			s.errorf(v.load.key, "a k6 script decides what is offered to every variant; remove %s, or write scenarios", loadKey)
		}
	}
}

// offered are the scenarios that a variant gets.
func (e *Experiment) offered(v *Variant) []Scenario {
	if v.Load == nil || len(v.Load.Scenarios) == 0 {
		return e.Load.Scenarios
	}
	return slices.DeleteFunc(slices.Clone(e.Load.Scenarios), func(sc Scenario) bool { return !slices.Contains(v.Load.Scenarios, sc.Name) })
}

// PlanOf returns the load that a variant gets, as Plan does.
func (e *Experiment) PlanOf(variant string) load.Plan {
	i := slices.IndexFunc(e.Variants, func(v Variant) bool { return v.Name == variant })
	if i < 0 || e.Variants[i].Load == nil {
		return e.Plan()
	}
	l := e.Load
	l.Scenarios = e.offered(&e.Variants[i])
	l.Protocol = cmp.Or(e.Variants[i].Load.Protocol, l.Protocol)
	return l.plan(e.Seed)
}

// SLOOf returns what a variant must meet: all but objectives on scenarios that it does not get.
func (e *Experiment) SLOOf(variant string) SLO {
	i := slices.IndexFunc(e.Variants, func(v Variant) bool { return v.Name == variant })
	if i < 0 || e.Variants[i].Load == nil {
		return e.SLO
	}
	offered := e.offered(&e.Variants[i])
	var out SLO
	for _, o := range e.SLO {
		o.Thresholds = slices.DeleteFunc(slices.Clone(o.Thresholds), func(t threshold.Threshold) bool {
			return t.Scenario != "" && !slices.ContainsFunc(offered, func(sc Scenario) bool { return sc.Name == t.Scenario })
		})
		if len(o.Thresholds) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// overlay checks what a Compose override has at its top, where a forgotten
// "services:" or a wrong indentation shows.
func (f field) overlay(p pair) {
	name, n := p.key.text, p.value
	switch n.kind {
	case mapping:
	case null:
		f.errorf(p.key, "variant %s is empty; write %s: {} for the system as it is", spelling.Quote(name), name)
		return
	default:
		f.errorf(n, "variant %s must be a Compose override, not %s; write %s: {services: {api: {environment: {NAME: value}}}}", spelling.Quote(name), describe(n), name)
		return
	}
	for _, top := range n.pairs {
		key := top.key.text
		if slices.Contains(composeKeys(), key) || strings.HasPrefix(key, "x-") {
			continue
		}
		instead := "write services: {" + key + ": …} if it is a service"
		if near, ok := spelling.Nearest(key, composeKeys()); ok {
			instead = "write " + near
		}
		f.errorf(top.key, "variant %s has the key %s, which no Compose file has; %s", spelling.Quote(name), spelling.Quote(key), instead)
	}
	services, ok := n.pair("services")
	if !ok {
		return
	}
	if services.value.kind != mapping {
		f.errorf(services.value, "services must be a mapping from names to services, not %s; write services: {api: {environment: {NAME: value}}}", describe(services.value))
		return
	}
	for _, s := range services.value.pairs {
		if s.value.kind != mapping && s.value.tag == "" {
			f.errorf(s.value, "service %s must be a mapping, not %s; write %s: {environment: {NAME: value}}", spelling.Quote(s.key.text), describe(s.value), s.key.text)
		}
	}
}

// CheckServices checks the names of services against those that the system
// has: the entry must be one of them, and an override must override one of
// them or say what else its service runs (image, build, x-process, extends). A
// service that is swept must be there too. The error is an [Errors].
func (e *Experiment) CheckServices(known []string) error {
	d := &decoder{file: e.file}
	listed := e.listed()
	inAll := map[string]int{} // service -> variants that define it anew
	for _, variant := range listed {
		services, ok := variant.value.pair("services")
		if !ok {
			continue
		}
		for _, s := range services.value.pairs {
			name := s.key.text
			switch {
			case slices.Contains(known, name):
			case runs(s.value):
				inAll[name]++
			default:
				d.errorf(s.key, "%s has no service %s for variant %s to override; %s, or give it an image, a build or an x-process",
					e.System.named(), spelling.Quote(name), spelling.Quote(variant.key.text), spelling.Choose(name, known))
			}
		}
	}
	e.watchesKnown(d, known, inAll)
	if e.Sweep != nil && !slices.Contains(known, e.Sweep.Service) && inAll[e.Sweep.Service] == 0 {
		swept, _ := e.root.pair("sweep")
		service, _ := swept.value.pair("service")
		d.errorf(service.value, "%s has no service %s for sweep to grow; %s", e.System.named(), spelling.Quote(e.Sweep.Service), spelling.Choose(e.Sweep.Service, known))
	}
	if !slices.Contains(known, e.Entry) && inAll[e.Entry] < max(1, len(listed)) {
		entry, _ := e.root.pair("entry")
		d.errorf(entry.value, "%s has no service %s to be the entry; %s", e.System.named(), spelling.Quote(e.Entry), spelling.Choose(e.Entry, known))
	}
	return d.errs.sorted()
}

// listed are the variants that stand in the file: none beside a sweep that grows
// the system as it is.
func (e *Experiment) listed() []pair {
	if variants, ok := e.root.pair("variants"); ok {
		return variants.value.pairs
	}
	return nil
}

// runs reports whether a service says what it runs.
func runs(service *node) bool {
	return slices.ContainsFunc(service.pairs, func(p pair) bool {
		return slices.Contains([]string{"image", "build", "x-process", "extends"}, p.key.text)
	})
}

// appendYAML appends n as a YAML document. Scalars keep the form of the file,
// so that whoever reads the document resolves them as if it stood there.
func (n *node) appendYAML(b []byte) []byte {
	b = n.appendAt(b, 0)
	return append(b[min(1, len(b)):], '\n') // without the space or line break before it
}

// appendAt appends the value of a key or of a dash, with the space before it.
// What has parts starts on a line of its own.
func (n *node) appendAt(b []byte, indent int) []byte {
	if n.tag != "" {
		b = append(append(b, ' '), n.tag...)
	}
	switch {
	case n.kind == mapping && len(n.pairs) == 0:
		return append(b, " {}"...)
	case n.kind == list && len(n.items) == 0:
		return append(b, " []"...)
	case n.kind == mapping:
		for _, p := range n.pairs {
			b = newLine(b, indent)
			b = append(p.key.appendScalar(b), ':')
			b = p.value.appendAt(b, indent+2)
		}
		return b
	case n.kind == list:
		for _, item := range n.items {
			b = append(newLine(b, indent), '-')
			b = item.appendAt(b, indent+2)
		}
		return b
	default:
		return n.appendScalar(append(b, ' '))
	}
}

func newLine(b []byte, indent int) []byte {
	b = append(b, '\n')
	for range indent {
		b = append(b, ' ')
	}
	return b
}

// isIndicator reports whether text begins as a list or a key would where it is
// written: in brackets the file may have it plain.
func (n *node) isIndicator() bool {
	first, _, _ := strings.Cut(n.text, " ")
	return first == "-" || first == "?" || first == ":"
}

// appendScalar appends a scalar plain where the file had it plain, else in
// double quotes, whose escapes are those of Go.
func (n *node) appendScalar(b []byte) []byte {
	switch {
	case n.kind == null && n.text == "":
		return append(b, "null"...)
	case n.quoted || n.text == "" || strings.ContainsFunc(n.text, unicode.IsControl) || n.isIndicator():
		return strconv.AppendQuote(b, n.text)
	default:
		return append(b, n.text...)
	}
}

func (*Variants) describe(g *generator, t tag) *schema {
	overlay := where(&schema{Type: "object"}, "services")
	only := g.structure(reflect.TypeFor[VariantLoad]())
	only.Description = g.comments["VariantLoad"]
	overlay.Properties.Set(loadKey, only)
	overlay.Type = "object"
	overlay.Description = "A Compose override: {} for the system as it is."
	overlay.PropertyNames = either(&schema{Enum: words(composeKeys())}, &schema{Pattern: "^x-"})
	form := forms[t.Get("names")]
	return &schema{
		Type: "object", MinProperties: t.count("least"), AdditionalProperties: overlay,
		PropertyNames: &schema{Pattern: form.pattern, MaxLength: count64(form.longest)},
	}
}
