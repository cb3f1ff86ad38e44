package selftest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// methods are those of the verdict, in the order of the table.
func methods() []string {
	return []string{verdict.Demanding, verdict.Saturating, verdict.Perturbing}
}

// Truth is what limits a planted system: one component's resource, or two or
// more components equally, or nothing of the system itself.
type Truth struct {
	Component string   `json:"component,omitempty"`
	Resource  string   `json:"resource,omitempty"` // its kind
	Called    string   `json:"called,omitempty"`   // its name in x-resources, if it has one
	Equally   []string `json:"equally,omitempty"`  // components, each by its CPU
}

func named(component, resource string) Truth { return Truth{Component: component, Resource: resource} }

// called adds the resource's name.
func (t Truth) called(name string) Truth {
	t.Called = name
	return t
}
func equally(components ...string) Truth { return Truth{Equally: components} }
func lowerBound() Truth                  { return Truth{} }

func (t Truth) String() string {
	switch {
	case t.Component != "":
		return t.Component + " " + t.Resource
	case len(t.Equally) > 0:
		return strings.Join(t.Equally, " = ")
	}
	return verdict.LowerBoundOnly
}

// names says whether a component's resource, by kind or by name, is the planted
// one.
func (t Truth) names(component, resource string) bool {
	return component == t.Component && (resource == t.Resource || t.Called != "" && resource == t.Called)
}

// IsNamedBy says whether what a method names is right: that it names the
// component and the resource; of components that limit equally all of them, as
// those that it cannot tell apart; and nobody where the system is not at a limit.
func (t Truth) IsNamedBy(w *verdict.Witness) bool {
	switch {
	case t.Component != "":
		return t.names(w.Component, w.Resource)
	case len(t.Equally) > 0:
		return w.Component == "" && t.ties(w.Tied)
	}
	return w.Component == "" && len(w.Tied) == 0
}

// IsVerdict says whether the verdict is right: that it names the component and the
// resource; of components that limit equally all of them, as tied; and that the
// capacity is only a lower bound where the system is not at a limit. A verdict that
// is undecided is right about nothing, whatever its words mention.
func (t Truth) IsVerdict(v *verdict.Verdict) bool {
	switch {
	case t.Component != "":
		return v.Status == verdict.Named && t.names(v.Component, v.Resource)
	case len(t.Equally) > 0:
		return v.Status == verdict.Tied && v.Component == "" && t.ties(v.Tied)
	}
	return v.Status == verdict.LowerBoundOnly && v.Component == "" && len(v.Tied) == 0
}

// ties says whether tied are the CPUs of the planted components, all of them and
// nothing else.
func (t Truth) ties(tied []verdict.Limit) bool {
	components := make([]string, len(tied))
	for i, l := range tied {
		if components[i] = l.Component; l.Resource != verdict.CPU {
			return false
		}
	}
	slices.Sort(components)
	return slices.Equal(components, slices.Sorted(slices.Values(t.Equally)))
}

// Finding is what a method, or the verdict, named.
type Finding struct {
	Text  string `json:"text"` // empty if it was not applied
	Right bool   `json:"right"`
}

// Row is one system's score.
type Row struct {
	Name      string             `json:"name"`
	What      string             `json:"what"`
	Truth     Truth              `json:"truth"`
	Witnesses map[string]Finding `json:"witnesses"` // by name
	Verdict   Finding            `json:"judge"`
	Summary   string             `json:"summary"` // of the verdict
	// Capacity is in requests per second.
	Capacity float64 `json:"capacity"`
	// Outside is how many cores other programs used meanwhile.
	Outside float64 `json:"outside"`
	// LeftOut: they are why the verdict names nothing, and it does not count.
	LeftOut bool    `json:"left_out,omitempty"`
	Seconds float64 `json:"seconds"`
	Run     string  `json:"run,omitempty"`   // where its raw data is
	Error   string  `json:"error,omitempty"` // why it could not be measured

	silent bool // the verdict names nothing
}

// outsideMuch is how many cores of other programs make a measurement doubtful.
const outsideMuch = 0.5

// disturbed says whether the verdict is wrong because other programs used the machine:
// it names nothing then. One that names something wrong has no such excuse.
func (r *Row) disturbed() bool {
	return r.Error == "" && !r.Right() && r.silent && r.Outside > outsideMuch
}

// Right says whether the verdict is right, which is what counts.
func (r *Row) Right() bool { return r.Error == "" && r.Verdict.Right }

// rowOf compares what was found with the known bottleneck.
func rowOf(p Planted, res *result.Result, failed error) Row {
	row := Row{Name: p.Name, What: p.What, Truth: p.Truth, Witnesses: map[string]Finding{}}
	switch {
	case failed != nil:
		row.Error = failed.Error()
		return row
	case len(res.Variants) != 1:
		row.Error = fmt.Sprintf("the result has %d variants, want 1", len(res.Variants))
		return row
	}
	v := &res.Variants[0]
	if v.Capacity != nil {
		row.Capacity = v.Capacity.Value
	}
	row.Verdict = Finding{Text: resourceText(v.Verdict.Component, v.Verdict.Resource, v.Verdict.Status), Right: p.Truth.IsVerdict(&v.Verdict)}
	row.Summary, row.silent = v.Verdict.Summary, v.Verdict.Component == "" && len(v.Verdict.Tied) == 0
	if v.Conditions != nil {
		row.Outside = v.Conditions.Outside
	}
	for i := range v.Verdict.Witnesses {
		w := &v.Verdict.Witnesses[i]
		row.Witnesses[w.Name] = Finding{Text: resourceText(w.Component, w.Resource, tiedText(w.Tied)), Right: p.Truth.IsNamedBy(w)}
	}
	return row
}

func resourceText(component, resource, otherwise string) string {
	return cmp.Or(strings.TrimSpace(component+" "+resource), otherwise)
}

// tiedText is what a method cannot distinguish.
func tiedText(tied []verdict.Limit) string {
	components := make([]string, len(tied))
	for i, l := range tied {
		components[i] = l.Component
	}
	return cmp.Or(strings.Join(components, " = "), "none")
}

// Score is what a self-test found.
type Score struct {
	Seed    uint64    `json:"seed"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Rows    []Row     `json:"systems"`
	// Right is how many verdicts were right, and Needed how many must be.
	Right  int  `json:"right"`
	Needed int  `json:"needed"`
	Passed bool `json:"passed"`
}

// conclude counts. At least eleven of every twelve must be right: of four all,
// of fourteen thirteen.
func (s *Score) conclude() {
	s.Seconds = time.Since(s.Started).Seconds()
	s.Right = 0
	counted := 0
	for i := range s.Rows {
		if s.Rows[i].Right() {
			s.Right++
		}
		if !s.Rows[i].LeftOut {
			counted++
		}
	}
	s.Needed = (11*counted + 11) / 12
	s.Passed = len(s.Rows) > 0 && s.Right >= s.Needed
}
