package experiment

import (
	"fmt"
	"slices"
	"strconv"

	"loadstone/block/spelling"
)

const (
	sweepExample    = "sweep: {service: api, replicas: [1, 2, 3, 6]}"
	variantsExample = "variants: {baseline: {}}"
	keyReplicas     = "replicas"
	keyCPUs         = "cpus"

	minSizes    = 2 // one size has nothing to grow to
	maxSizes    = 20
	maxReplicas = 1000
	minCPUs     = 0.001
	maxCPUs     = 1024
)

// Size is one size of a sweep and the variant that it became.
type Size struct {
	Variant string
	// Size is a number of instances, or the CPUs of each.
	Size float64
}

// Setting is what is swept: replicas or cpus.
func (s *Sweep) Setting() string {
	if len(s.CPUs) > 0 {
		return keyCPUs
	}
	return keyReplicas
}

// Sizes are the sizes in the order of the file.
func (s *Sweep) Sizes() []Size {
	var out []Size
	add := func(n float64) {
		out = append(out, Size{Variant: s.Setting() + "-" + strconv.FormatFloat(n, 'f', -1, 64), Size: n})
	}
	for _, n := range s.Replicas {
		add(float64(n))
	}
	for _, n := range s.CPUs {
		add(n)
	}
	return out
}

// keys is where a Compose file sets the size of a service, below that service.
func (s *Sweep) keys() []string {
	if s.Setting() == keyCPUs {
		return []string{"deploy", "resources", "limits", "cpus"}
	}
	return []string{"deploy", "replicas"}
}

// alternative is the other key of a service by which Compose files set that.
func (s *Sweep) alternative() string {
	if s.Setting() == keyCPUs {
		return keyCPUs
	}
	return "scale"
}

// variants reads the variants, or those that a sweep makes.
func (s *section) variants(e *Experiment) {
	listed, swept := s.may("variants", variantsExample), s.may("sweep", sweepExample)
	if listed.n == nil && swept.n == nil {
		s.missing = append(s.missing, lack{"variants", variantsExample + ", or " + sweepExample})
	}
	before := len(s.errs)
	e.Variants = listed.variants()
	e.Sweep = swept.sweep()
	if e.Sweep == nil || len(s.errs) > before {
		return
	}
	base := &node{kind: mapping}
	switch {
	case listed.n != nil && len(listed.n.pairs) > 1:
		s.errorf(swept.place, "sweep makes every size from one variant, and there are %d; keep one of them, or remove sweep", len(listed.n.pairs))
		return
	case listed.n != nil && len(listed.n.pairs) == 1:
		only := listed.n.pairs[0]
		if base = only.value; !s.sweepable(only.key.text, base, e.Sweep) {
			return
		}
	}
	e.Variants = e.Sweep.variants(base)
}

// variants are the variants of the sizes, all on the same override.
func (s *Sweep) variants(base *node) Variants {
	var out Variants
	for _, size := range s.Sizes() {
		n := &node{kind: integer, text: strconv.FormatFloat(size.Size, 'f', -1, 64)}
		if s.Setting() == keyCPUs {
			n.kind, n.quoted = text, true // as Compose files have it
		}
		path := append([]string{"services", s.Service}, s.keys()...)
		out = append(out, Variant{Name: size.Variant, Overlay: base.with(n, path).appendYAML(nil)})
	}
	return out
}

// with returns a copy of a mapping in which a path of keys leads to a value.
// What the path passes must be mappings, or not be there.
func (n *node) with(value *node, path []string) *node {
	if len(path) == 0 {
		return value
	}
	out := *n
	out.pairs = slices.Clone(n.pairs)
	for i, p := range out.pairs {
		if p.key.text == path[0] {
			out.pairs[i].value = p.value.with(value, path[1:])
			return &out
		}
	}
	inner := (&node{kind: mapping}).with(value, path[1:])
	out.pairs = append(out.pairs, pair{key: &node{kind: text, text: path[0]}, value: inner})
	return &out
}

// sweepable says whether a variant leaves the size of the service to the sweep,
// and room for it.
func (d *decoder) sweepable(name string, n *node, s *Sweep) bool {
	path := append([]string{"services", s.Service}, s.keys()...)
	for i, key := range path {
		p, ok := n.pair(key)
		switch last := i == len(path)-1; {
		case i == 2: // within the service
			if other, ok := n.pair(s.alternative()); ok {
				return d.alreadySized(name, other.key, s)
			}
		case ok && last:
			return d.alreadySized(name, p.key, s)
		}
		if !ok {
			return true
		}
		if i < len(path)-1 && p.value.kind != mapping {
			d.errorf(p.value, "%s of variant %s must be a mapping for sweep to set the %s of %s in it, not %s; write %s: {}",
				key, spelling.Quote(name), s.Setting(), spelling.Quote(s.Service), describe(p.value), key)
			return false
		}
		n = p.value
	}
	return true
}

func (d *decoder) alreadySized(name string, key *node, s *Sweep) bool {
	d.errorf(key, "variant %s sets the %s of %s, and so does sweep; remove %s here", spelling.Quote(name), s.Setting(), spelling.Quote(s.Service), key.text)
	return false
}

// sweep reads which service grows, and over which sizes. It returns nil if that
// cannot be told.
func (f field) sweep() *Sweep {
	if !f.given() {
		return nil
	}
	s := f.section(f.n, f.place, "sweep", f.example)
	if s == nil {
		return nil
	}
	to := &Sweep{Service: s.need("service", "service: api").text()}
	replicas, cpus := s.may(keyReplicas, "replicas: [1, 2, 3, 6]"), s.may(keyCPUs, "cpus: [0.1, 0.2, 0.4]")
	switch {
	case replicas.n != nil && cpus.n != nil:
		s.errorf(cpus.place, "sweep has replicas and cpus, and grows one of the two; remove one")
	case replicas.n == nil && cpus.n == nil:
		s.missing = append(s.missing, lack{keyReplicas, replicas.example + ", or " + cpus.example})
	}
	for _, n := range replicas.sizes(func(one field) float64 { return float64(one.whole(1, maxReplicas)) }) {
		to.Replicas = append(to.Replicas, int(n))
	}
	to.CPUs = cpus.sizes(field.cores)
	if c := s.may("carry", "carry: 4000/s"); c.given() {
		to.Carry = c.positiveRate(timeUnit{})
	}
	s.done()
	return to
}

// cores reads a number of CPUs.
func (f field) cores() float64 {
	v, err := strconv.ParseFloat(f.n.text, 64)
	if f.n.kind != integer && f.n.kind != number || !amountForm.MatchString(f.n.text) || err != nil {
		f.wrong("a number of CPUs")
		return 0
	}
	if v < minCPUs || v > maxCPUs {
		f.errorf(f.n, "%s must be from %g to %d CPUs, not %s; write %s", f.key, minCPUs, maxCPUs, f.n.text, f.example)
	}
	return v
}

// carried checks the rate that some size is to carry.
func (s *section) carried(e *Experiment) {
	if e.Sweep == nil || e.Sweep.Carry == 0 {
		return
	}
	p, _ := s.n.pair("sweep")
	carry, _ := p.value.pair("carry")
	switch {
	case e.Measure == AsWritten:
		s.errorf(carry.key, "carry asks for a capacity, which measure: load does not search; remove carry, or write measure: capacity")
	case e.Measure == Capacity && e.Sweep.Carry > e.Search.MaxRate:
		s.errorf(carry.value, "carry is above the search's maxRate, %g/s, which no size can be seen to exceed; write a lower rate, or a higher maxRate", float64(e.Search.MaxRate))
	}
}

// sizes reads a list of sizes, each written once.
func (f field) sizes(read func(field) float64) []float64 {
	if !f.given() {
		return nil
	}
	switch {
	case f.n.kind != list:
		f.wrong(fmt.Sprintf("a list of at least %d sizes", minSizes))
		return nil
	case len(f.n.items) < minSizes:
		f.errorf(f.n, "%s has %s, and a sweep goes from one size to another; write at least %d, such as %s", f.key, count(len(f.n.items), "size"), minSizes, f.example)
		return nil
	case len(f.n.items) > maxSizes:
		f.errorf(f.n.items[maxSizes], "these are more than %d sizes; write fewer", maxSizes)
		return nil
	}
	var out []float64
	for i, item := range f.n.items {
		if !f.plain(item) {
			continue
		}
		one := f
		one.n, one.key = item, fmt.Sprintf("size %d of %s", i+1, f.key)
		before := len(f.errs)
		n := read(one)
		switch {
		case len(f.errs) > before:
		case slices.Contains(out, n):
			f.errorf(item, "size %s is written twice; write each size once", item.text)
		default:
			out = append(out, n)
		}
	}
	return out
}
