package selftest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// methods are those of the verdict, in the order of the table.
func methods() []string {
	return []string{verdict.Demanding, verdict.Saturating, verdict.Perturbing, verdict.Waiting}
}

// Truth is what limits a planted system: one component's resource, or two or
// more components equally, or nothing of the system itself; or that nobody is to be named.
type Truth struct {
	Component string   `json:"component,omitempty"`
	Resource  string   `json:"resource,omitempty"` // its kind
	Called    string   `json:"called,omitempty"`   // its name in x-resources, if it has one
	Equally   []string `json:"equally,omitempty"`  // components, each by its CPU
	// Nobody is to be named: nothing of what limits is known to whoever looks at CPU and
	// at what is declared, or several things limit together.
	Nobody bool `json:"nobody,omitempty"`
	// In is where requests are to be said to wait, Outside that this is no service of the
	// file, and AtOnce how many are worked on there at a time; 0 if that is not planted.
	In      string  `json:"in,omitempty"`
	Outside bool    `json:"outside,omitempty"`
	AtOnce  float64 `json:"at_once,omitempty"`
	// Advised is a part of what must be advised.
	Advised string `json:"advised,omitempty"`
	// Apart is how many times as much the second of two variants can do: 1 of the same variant
	// twice; 0 where a verdict is what counts.
	Apart float64 `json:"apart,omitempty"`
}

func named(component, resource string) Truth { return Truth{Component: component, Resource: resource} }

// called adds the resource's name.
func (t Truth) called(name string) Truth {
	t.Called = name
	return t
}

// advised adds a part of what must be advised.
func (t Truth) advised(words string) Truth {
	t.Advised = words
	return t
}

func nobody() Truth                      { return Truth{Nobody: true} }
func waitsIn(component string) Truth     { return Truth{Nobody: true, In: component} }
func waitsOutside() Truth                { return Truth{Nobody: true, Outside: true} }
func equally(components ...string) Truth { return Truth{Equally: components} }
func lowerBound() Truth                  { return Truth{} }

func (t Truth) String() string {
	switch {
	case t.Apart == 1:
		return "no difference"
	case t.Apart > 0:
		return fmt.Sprintf("×%g", t.Apart)
	case t.Component != "":
		return t.Component + " " + t.Resource
	case len(t.Equally) > 0:
		return strings.Join(t.Equally, " = ")
	case t.In != "":
		return "nobody; in " + t.In
	case t.Outside:
		return "nobody; outside"
	case t.Nobody:
		return "nobody"
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
	case w.Name == verdict.Waiting && t.Nobody:
		return w.Component == t.In
	case w.Name == verdict.Waiting && t.Component != "":
		return w.Component == t.Component
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
// is undecided is right about nothing but that nobody is to be named, whatever its words
// mention; and then it has to say where requests wait, if that was planted.
func (t Truth) IsVerdict(v *verdict.Verdict) bool {
	switch {
	case t.Component != "":
		return v.Status == verdict.Named && t.names(v.Component, v.Resource) && strings.Contains(v.Advice, t.Advised)
	case t.Nobody:
		return v.Component == "" && t.isWhere(v.Located)
	case len(t.Equally) > 0:
		return v.Status == verdict.Tied && v.Component == "" && t.ties(v.Tied)
	}
	return v.Status == verdict.LowerBoundOnly && v.Component == "" && len(v.Tied) == 0
}

// mostSlotsOff is how far off the number of slots may be that nobody declared.
const mostSlotsOff = 0.20

// isWhere says whether requests wait where that was planted, and as many are worked on at a
// time.
func (t Truth) isWhere(l *verdict.Located) bool {
	switch {
	case t.In == "" && !t.Outside:
		return true
	case l == nil || l.Outside != t.Outside || t.In != "" && l.Component != t.In:
		return false
	}
	return t.AtOnce == 0 || math.Abs(l.AtOnce-t.AtOnce) <= mostSlotsOff*t.AtOnce
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
	Seed      uint64             `json:"seed"`
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
	// Located is where requests wait, as the verdict says; nil if nowhere.
	Located *verdict.Located `json:"located,omitempty"`
	// LeftOut: they are why the verdict names nothing, and it does not count.
	LeftOut bool    `json:"left_out,omitempty"`
	Seconds float64 `json:"seconds"`
	Run     string  `json:"run,omitempty"`   // where its raw data is
	Error   string  `json:"error,omitempty"` // why it could not be measured

	// Misleads: the verdict names what does not limit, or advises what does not help, which
	// is worse than to name nothing.
	Misleads bool `json:"misleads,omitempty"`
	// Compared is what the run says of two variants; nil where that is not what was planted, or
	// they could not be compared.
	Compared *result.Comparison `json:"compared,omitempty"`

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

// misleads says whether a verdict that is not right names somebody. A tie misleads if the
// planted one is none of it.
func (t Truth) misleads(v *verdict.Verdict) bool {
	switch {
	case t.IsVerdict(v):
		return false
	case len(v.Tied) > 0:
		return !slices.ContainsFunc(v.Tied, func(l verdict.Limit) bool {
			return t.names(l.Component, l.Resource) || t.names(l.Component, l.Name) || l.Resource == verdict.CPU && slices.Contains(t.Equally, l.Component)
		})
	}
	return v.Component != ""
}

// rowOf compares what was found with the known bottleneck.
func rowOf(p Planted, truth Truth, res *result.Result, failed error) Row {
	row := Row{Name: p.Name, What: p.What, Truth: truth, Witnesses: map[string]Finding{}}
	switch {
	case failed != nil:
		row.Error = failed.Error()
		return row
	case truth.Apart > 0:
		row.compare(res)
		return row
	case len(res.Variants) != 1:
		row.Error = fmt.Sprintf("the result has %d variants, want 1", len(res.Variants))
		return row
	}
	v := &res.Variants[0]
	if v.Capacity != nil {
		row.Capacity = v.Capacity.Value
	}
	row.Verdict = Finding{Text: resourceText(v.Verdict.Component, v.Verdict.Resource, v.Verdict.Status), Right: truth.IsVerdict(&v.Verdict)}
	row.Located, row.Misleads = v.Verdict.Located, truth.misleads(&v.Verdict)
	row.Summary, row.silent = v.Verdict.Summary, v.Verdict.Component == "" && len(v.Verdict.Tied) == 0
	if v.Conditions != nil {
		row.Outside = v.Conditions.Outside
	}
	for i := range v.Verdict.Witnesses {
		w := &v.Verdict.Witnesses[i]
		row.Witnesses[w.Name] = Finding{Text: resourceText(w.Component, w.Resource, tiedText(w.Tied)), Right: truth.IsNamedBy(w)}
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
	// Verdicts is how many there are, Right how many were right, Needed how many must be, and
	// Misled how many named what does not limit.
	Verdicts int         `json:"verdicts"`
	Right    int         `json:"right"`
	Misled   int         `json:"misled"`
	Needed   int         `json:"needed"`
	Pairs    []PairScore `json:"pairs,omitempty"`
	Passed   bool        `json:"passed"`
}

// conclude counts. At least eleven of every twelve verdicts must be right: of four all,
// of fourteen thirteen. Pairs have a rule of their own.
func (s *Score) conclude() {
	s.Seconds = time.Since(s.Started).Seconds()
	s.Right, s.Misled, s.Verdicts = 0, 0, 0
	counted := 0
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Truth.Apart > 0 {
			continue
		}
		s.Verdicts++
		if r.Misleads {
			s.Misled++
		}
		if r.Right() {
			s.Right++
		}
		if !r.LeftOut {
			counted++
		}
	}
	s.Needed = (11*counted + 11) / 12
	s.Pairs = s.pairs()
	s.Passed = len(s.Rows) > 0 && s.Right >= s.Needed && !slices.ContainsFunc(s.Pairs, func(k PairScore) bool { return !k.Passed })
}
