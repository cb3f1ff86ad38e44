package predict

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/result"
)

// Topology is a variant of a run with something changed.
type Topology struct {
	Variant string
	Changes []Change
}

// String is the topology as ParseTopology reads it.
func (t Topology) String() string { return t.Variant + ": " + t.changes(", ") }

func (t Topology) changes(between string) string {
	var out []string
	for _, c := range t.Changes {
		out = append(out, c.String())
	}
	return strings.Join(out, between)
}

// ErrTopology marks a text that says no topology of the run's.
var ErrTopology = errors.New("not a topology")

// ParseTopology reads "cached: api.replicas=3, lb.cpus=0.4", where the variant
// may be left out: it is variant then, or the run's first if that is empty, too.
// The error is one sentence.
func ParseTopology(text string, r *result.Result, variant string) (Topology, error) {
	sets := text
	if before, after, ok := strings.Cut(text, ":"); ok {
		variant, sets = strings.TrimSpace(before), after
		if variant == "" {
			return Topology{}, fmt.Errorf("%w: %s names no variant before the colon; write VARIANT: CHANGE, or CHANGE alone", ErrTopology, text)
		}
	}
	v, err := find(r, variant)
	if err != nil {
		return Topology{}, err
	}
	t := Topology{Variant: v.Name}
	services := servicesOf(v)
	for set := range strings.SplitSeq(sets, ",") {
		c, err := ParseChange(strings.TrimSpace(set), services)
		if err != nil {
			return Topology{}, fmt.Errorf("%w: %w", ErrTopology, err)
		}
		t.Changes = append(t.Changes, c)
	}
	if err := CheckChanges(t.Changes); err != nil {
		return Topology{}, fmt.Errorf("%w: %w", ErrTopology, err)
	}
	return t, nil
}

// CheckTopologies is an error of one sentence if one is there twice.
func CheckTopologies(ts []Topology) error {
	for i, t := range ts {
		if slices.ContainsFunc(ts[:i], func(o Topology) bool { return o.key() == t.key() }) {
			return fmt.Errorf("%w: %s is there twice; leave out one of them", ErrTopology, t)
		}
	}
	return nil
}

// key is the same for topologies that are the same, whatever the order of their changes.
func (t Topology) key() string {
	var sets []string
	for _, c := range t.Changes {
		sets = append(sets, c.String())
	}
	slices.Sort(sets)
	return t.Variant + ":" + strings.Join(sets, ",")
}

// bases are the variants of topologies, each once.
func bases(ts []Topology) []string {
	var out []string
	for _, t := range ts {
		if !slices.Contains(out, t.Variant) {
			out = append(out, t.Variant)
		}
	}
	return out
}

func servicesOf(v *result.Variant) []string {
	var out []string
	for _, c := range v.Components {
		out = append(out, c.Name)
	}
	return out
}
