package experiment

import (
	"strconv"

	"loadstone/block/spelling"
)

// Sweep is one service in several sizes: replicas or cpus. The first of the list
// is the baseline.
type Sweep struct {
	// The service that grows.
	Service string `key:"service,need" eg:"api"`

	// Its numbers of instances, from 1 to 1000.
	Replicas []int `key:"replicas" eg:"[1, 2, 3, 6]" each:"size %d of replicas" few:"a sweep goes from one size to another" least:"2" list:"a list of at least 2 sizes" max:"1000" min:"1" most:"20" unique:""`

	// The shares of a CPU that each of its instances gets.
	CPUs []float64 `key:"cpus" eg:"[0.1, 0.2, 0.4]" each:"size %d of cpus" few:"a sweep goes from one size to another" least:"2" list:"a list of at least 2 sizes" max:"1024" min:"0.001" most:"20" unique:"" unit:"CPUs"`

	// A rate, such as 4000/s: the report then says which is the smallest size that
	// carries it. Only for measure: capacity.
	Carry Rate `key:"carry" eg:"4000/s"`
}

// Size is one size of a sweep and the variant that it became.
type Size struct {
	Variant string
	// Size is a number of instances, or the CPUs of each.
	Size float64
}

// Setting is what is swept: replicas or cpus.
func (s *Sweep) Setting() string {
	if len(s.CPUs) > 0 {
		return CPUs
	}
	return Replicas
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

// alternative is the other key of a service by which Compose files set that.
func (s *Sweep) alternative() string {
	if s.Setting() == CPUs {
		return CPUs
	}
	return "scale"
}

// checkVariants checks that variants are listed or swept, and makes those of a
// sweep.
func (e *Experiment) checkVariants(s *section) {
	listed, swept := s.fields["variants"], s.fields["sweep"]
	switch {
	case listed.n == nil && swept.n == nil:
		s.lack("variants", listed.example+", or "+swept.example)
		return
	case !swept.sound || listed.n != nil && !listed.sound:
		return
	}
	base := Variant{root: &node{kind: mapping}}
	if listed.n != nil {
		if n := len(listed.n.pairs); n > 1 {
			s.errorf(swept.place, "sweep makes every size from one variant, and there are %d; keep one of them, or remove sweep", n)
			return
		}
		only := listed.n.pairs[0]
		base.Load, base.load = e.Variants[0].Load, e.Variants[0].load
		if base.root = e.Variants[0].root; !s.sweepable(only.key.text, base.root, e.Sweep) {
			return
		}
	}
	e.Variants = nil
	for _, size := range e.Sweep.Sizes() {
		base.Name = size.Variant
		v, err := base.Sized(e.Sweep.Service, e.Sweep.Setting(), size.Size)
		if err != nil {
			panic(err) // sweepable has looked
		}
		e.Variants = append(e.Variants, v)
	}
}

// sweepable says whether a variant leaves the size of the service to the sweep,
// and room for it.
func (d *decoder) sweepable(name string, n *node, s *Sweep) bool {
	path := sizePath(s.Service, s.Setting())
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

func (s *Sweep) check(sec *section) {
	sizes := sec.given(Replicas, CPUs)
	switch len(sizes) {
	case 0:
		sec.lack(Replicas, sec.fields[Replicas].example+", or "+sec.fields[CPUs].example)
	case 2:
		sec.errorf(sizes[1].place, "sweep has replicas and cpus, and grows one of the two; remove one")
	}
}

// checkCarry checks the rate that some size is to carry.
func (e *Experiment) checkCarry(s *section) {
	carry, _ := s.n.pair("sweep", "carry")
	switch {
	case e.Sweep == nil || e.Sweep.Carry == 0:
	case e.Measure == AsWritten:
		s.errorf(carry.key, "carry asks for a capacity, which measure: load does not search; remove carry, or write measure: capacity")
	case e.Measure == Capacity && e.Sweep.Carry > e.Search.MaxRate:
		s.errorf(carry.value, "carry is above the search's maxRate, %g/s, which no size can be seen to exceed; write a lower rate, or a higher maxRate", float64(e.Search.MaxRate))
	}
}

func (*Sweep) rules(s *schema) { s.OneOf = exactlyOne(Replicas, CPUs) }
