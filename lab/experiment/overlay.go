package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// What the size of a service is set by: how many replicas it has, or how many CPUs each
// of them may use.
const (
	Replicas = "replicas"
	CPUs     = "cpus"
)

// sizePath is where a Compose file sets the size of a service.
func sizePath(service, setting string) []string {
	if setting == CPUs {
		return []string{"services", service, "deploy", "resources", "limits", "cpus"}
	}
	return []string{"services", service, "deploy", "replicas"}
}

// Sized returns the variant with a size of a service. An override that has another value
// where the size is to go is an error.
func (v Variant) Sized(service, setting string, size float64) (Variant, error) {
	value := &node{kind: integer, text: strconv.FormatFloat(size, 'f', -1, 64)}
	if setting == CPUs {
		value.kind, value.quoted = text, true // as Compose files have it
	}
	path := sizePath(service, setting)
	for i, n := range v.root.along(path[:len(path)-1]) {
		if n.kind != mapping {
			return v, fmt.Errorf("%s is %s, which leaves no room for %s", path[i], describe(n), strings.Join(path[i+1:], "."))
		}
	}
	v.root = v.root.with(value, path)
	v.Overlay = v.root.appendYAML(nil)
	return v, nil
}

// along returns the values that a path of keys leads to, as far as it goes.
func (n *node) along(path []string) []*node {
	var out []*node
	for _, key := range path {
		p, ok := n.pair(key)
		if !ok {
			break
		}
		n = p.value
		out = append(out, n)
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

// Setting is a value that an override sets.
type Setting struct {
	Path  []string // of keys, and of numbers in lists
	Value string
}

// Settings returns all values that the override sets.
func (v Variant) Settings() []Setting { return v.root.settings(nil) }

func (n *node) settings(path []string) (out []Setting) {
	for i, item := range n.items {
		out = append(out, item.settings(slices.Concat(path, []string{strconv.Itoa(i)}))...)
	}
	for _, p := range n.pairs {
		out = append(out, p.value.settings(slices.Concat(path, []string{p.key.text}))...)
	}
	if n.kind != mapping || n.tag != "" {
		out = append(out, Setting{path, n.tag + " " + n.text})
	}
	return out
}
