package verdict

import (
	"cmp"
	"slices"
	"strings"
)

// Limits are what limits: one if it is named, several if they are tied, none if
// the verdict is another.
func (v *Verdict) Limits() []Limit {
	switch {
	case v.Status == Tied:
		return v.Tied
	case v.Status == Named && v.Component != "":
		return []Limit{{Component: v.Component, Resource: v.Resource, Name: v.ResourceName}}
	default:
		return nil
	}
}

// Limiting are the components that limit, each once: one if it is named, several
// if they limit equally, none if the verdict is another.
func (v *Verdict) Limiting() []string {
	var names []string
	for _, l := range v.Limits() {
		if !slices.Contains(names, l.Component) {
			names = append(names, l.Component)
		}
	}
	return names
}

// LimitedBy says whether a component's resource of that name is among what limits.
// CPU and memory have no name.
func (v *Verdict) LimitedBy(component, resource string) bool {
	return slices.ContainsFunc(v.Limits(), func(l Limit) bool { return l.Component == component && l.Name == resource })
}

// Decided says whether it is known what limits: one thing, or several equally.
func (v *Verdict) Decided() bool { return v.Status == Named || v.Status == Tied }

// TiedNames are those that limit equally: components, or the resources where one
// component has them all.
func (v *Verdict) TiedNames() []string {
	names := v.Limiting()
	if len(names) > 1 {
		return names
	}
	names = nil
	for _, l := range v.Tied {
		names = append(names, strings.TrimSpace(l.Component+" "+cmp.Or(l.Name, l.Resource)))
	}
	return names
}
