package predict

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"loadstone/block/spelling"
	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/model/scaling"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/term"
	"loadstone/lab/verdict"
)

// GrowthSchema names the version of Growth's JSON form.
const GrowthSchema = "loadstone.growth/1"

// Growth is how capacity grows with the replicas of a service.
type Growth struct {
	Schema  string `json:"schema"`
	Run     string `json:"run"`
	Service string `json:"service"`
	Unit    string `json:"unit"`
	Sizes   []Size `json:"sizes"`
	// Points are the capacities of all trials.
	Points []scaling.Point `json:"points"`
	scaling.Description
	// Takeover is where another component becomes the limit, by the demands of
	// the smallest size; absent if demands are not known.
	Takeover *scaling.Takeover `json:"takeover,omitempty"`
	Warnings []string          `json:"warnings"`
}

// Size is one number of replicas that was measured.
type Size struct {
	Variant  string          `json:"variant"`
	Replicas int             `json:"replicas"`
	Capacity result.Estimate `json:"capacity"`
}

// ErrService marks what is not a service's replicas.
var ErrService = errors.New("not the replicas of a service")

// Grow describes how capacity grew over the variants of a run that differ in
// nothing but the replicas of a service. what is "api.replicas".
func Grow(r *result.Result, name, what string) (*Growth, error) {
	service, ok := strings.CutSuffix(what, "."+experiment.Replicas)
	if !ok {
		return nil, fmt.Errorf("%w: %s; write SERVICE.replicas, such as api.replicas", ErrService, spelling.Quote(what))
	}
	exp, err := experiment.Parse(name, []byte(r.Source))
	if err != nil {
		return nil, fmt.Errorf("the experiment of run %s: %w", name, err)
	}
	g := &Growth{Schema: GrowthSchema, Run: name, Service: service, Unit: r.RateUnit(), Warnings: []string{}}
	if err := g.sizes(r, exp); err != nil {
		return nil, err
	}
	d, err := scaling.Describe(g.Points)
	if err != nil {
		return nil, fmt.Errorf("describe how capacity grows with the replicas of %s: %w", service, err)
	}
	g.Description = *d
	g.takeover(r)
	return g, nil
}

func (g *Growth) sizes(r *result.Result, exp *experiment.Experiment) error {
	names := knownServices(r)
	if !slices.Contains(names, g.Service) {
		return fmt.Errorf("%w: the run has no service %s; %s", ErrService, spelling.Quote(g.Service), spelling.ChooseName(g.Service, names))
	}
	alike, err := Alike(exp, g.Service)
	if err != nil {
		return err
	}
	var samples []scaling.Sample
	for _, v := range r.Variants {
		i := slices.IndexFunc(v.Components, func(c verdict.Component) bool { return c.Name == g.Service })
		if i < 0 || v.Capacity == nil || !slices.Contains(alike, v.Name) {
			continue
		}
		g.Sizes = append(g.Sizes, Size{Variant: v.Name, Replicas: v.Components[i].Instances, Capacity: *v.Capacity})
		samples = append(samples, scaling.Sample{Name: v.Name, N: float64(v.Components[i].Instances), Capacities: v.PerTrial, LowerBound: v.Capacity.LowerBound})
	}
	points, warnings := scaling.Points(samples)
	g.Points, g.Warnings = points, append(g.Warnings, warnings...)
	slices.SortStableFunc(g.Sizes, func(a, b Size) int { return a.Replicas - b.Replicas })
	return nil
}

func knownServices(r *result.Result) []string {
	var out []string
	for _, v := range r.Variants {
		for _, c := range v.Components {
			if !slices.Contains(out, c.Name) {
				out = append(out, c.Name)
			}
		}
	}
	return out
}

// takeover needs no fit: it is told from the demands of the smallest size.
func (g *Growth) takeover(r *result.Result) {
	s, err := model(r, g.Run, g.Sizes[0].Variant)
	if err != nil {
		return
	}
	var parts []scaling.Part
	for _, st := range s.Model.Stations {
		if st.Demand.Value > 0 && (st.Pool || !slices.Contains(s.unlimited, st.Name)) {
			parts = append(parts, scaling.Part{
				Name: st.Name, Each: st.Bound() / float64(st.Instances), Count: st.Instances, Grows: s.componentOf(st.Name) == g.Service,
			})
		}
	}
	if t, err := scaling.FindTakeover(parts); err == nil {
		g.Takeover = &t
	}
}

// Text writes growth for people.
func (g *Growth) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "capacity of %s over the replicas of %s, %s\n\n", g.Run, g.Service, g.Unit)
	table := term.NewTable(2, "llllll", "replicas", "variant", "capacity", "each", "law", "ceiling")
	for _, s := range g.Sizes {
		n := float64(s.Replicas)
		law := "–"
		if at, err := g.Law.At(n); err == nil {
			law = format.Measured(at.Value)
		}
		table.AddTexts(strconv.Itoa(s.Replicas), s.Variant, s.Capacity.WithRange(),
			format.Measured(s.Capacity.Value/n), law, format.Measured(g.Ceiling.At(n)))
	}
	b.WriteString(table.Text(false))
	fmt.Fprintf(&b, "\nlaw      %s, σ %s, κ %s\n", g.Law.Model, fitted(g.Law.Sigma), fitted(g.Law.Kappa))
	fmt.Fprintf(&b, "peak     %s\n", g.peak())
	fmt.Fprintf(&b, "shape    %s: %s\n", g.Shape, g.Reason)
	if t := g.Takeover; t != nil && t.Next != "" {
		fmt.Fprintf(&b, "next     by demand, %s limits from %d replicas on, at about %s %s\n", t.Next, t.At, format.Measured(t.Bound), g.Unit)
	}
	for _, text := range slices.Concat(g.Warnings, g.Law.Warnings) {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// peak is the size beyond which capacity falls, or why none is known.
func (g *Growth) peak() string {
	if note := g.PeakNote(); note != "" {
		return strings.TrimPrefix(note, "peak ")
	}
	return fmt.Sprintf("at %s replicas, %s %s", format.Measured(g.Law.Peak.N.Value), format.Measured(g.Law.Peak.X), g.Unit)
}

func fitted(iv stats.Interval) string {
	if iv.Confidence == 0 {
		return format.Coefficient(iv.Value)
	}
	return fmt.Sprintf("%s [%s, %s]", format.Coefficient(iv.Value), format.Coefficient(iv.Low), format.Coefficient(iv.High))
}
