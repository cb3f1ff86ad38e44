package analysis

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/fault"
	"loadstone/lab/load"
	"loadstone/lab/result"
	"loadstone/lab/series"
)

// course is a trial second by second, with what was done to it on purpose.
type course struct {
	effects []fault.Effect
	watched [][]result.FaultWatched // of each effect
	shown   *result.Course          // nil if the experiment has neither faults nor watched metrics
}

// followed works out the course of a load as written, and what became of the
// bounds on watched metrics.
func (o *observed) followed(dir string, exp *experiment.Experiment, t archive.Trial, w watched, r *load.Result) error {
	scaled, err := scalingOf(dir)
	if err != nil {
		return err
	}
	o.scaled, o.ratios = scaled, append(o.ratios, scaled.figures(t, r)...)
	if len(exp.Faults)+len(exp.Watch)+len(scaled) == 0 {
		return nil
	}
	windows, err := windowsOf(dir, r)
	if err != nil {
		return err
	}
	began, err := loadBegan(dir)
	if err != nil {
		return err
	}
	events, err := eventsOf(dir)
	if err != nil {
		return err
	}
	o.course.effects, err = fault.Effects(fault.Input{
		Events: events, Windows: windows, SLO: exp.SLOOf(t.Variant).Thresholds(), From: r.From, To: r.To,
	})
	if err != nil {
		return err
	}
	seconds, err := fault.Seconds(windows)
	if err != nil {
		return err
	}
	o.course.shown = newCourse(t.Index, began, seconds, events, r.To)
	for _, s := range scaled {
		o.course.shown.Watched = append(o.course.shown.Watched, s.course(t, seconds)...)
		events = append(events, fault.Event{Action: fault.Stop, Instances: s.instances})
	}
	o.course.watched = make([][]result.FaultWatched, len(o.course.effects))
	for i := range exp.Watch {
		if err := o.follow(&exp.Watch[i], t, w, events, seconds); err != nil {
			return err
		}
	}
	return nil
}

// loadBegan is when the trial's load began, its warm-up included.
func loadBegan(dir string) (began time.Time, err error) {
	err = archive.ReadLines(dir, archive.WindowsFile, func(w load.Window) {
		if began.IsZero() {
			began = w.Start
		}
	})
	return began, err
}

// eventsOf are the trial's faults; none if there is no file of them.
func eventsOf(dir string) (events []fault.Event, err error) {
	err = archive.ReadLines(dir, archive.EventsFile, func(e fault.Event) { events = append(events, e) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return events, err
}

func newCourse(trial int, began time.Time, seconds []fault.Second, events []fault.Event, end time.Time) *result.Course {
	c := &result.Course{Trial: trial}
	for _, s := range seconds {
		c.Seconds = append(c.Seconds, s.From.Sub(began).Seconds())
		c.Rate, c.Failed = append(c.Rate, s.Rate), append(c.Failed, s.Failed)
		p95 := math.NaN()
		if s.P95 > 0 {
			p95 = s.P95
		}
		c.P95 = append(c.P95, finite(p95))
	}
	for _, e := range events {
		to, ok := e.Back()
		if !ok {
			to = end
		}
		c.Faults = append(c.Faults, result.CourseFault{What: e.What, From: e.Asked.Sub(began).Seconds(), To: to.Sub(began).Seconds()})
	}
	return c
}

// finite is nil for what is not known.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// follow adds one watched metric.
func (o *observed) follow(spec *experiment.Watch, t archive.Trial, w watched, events []fault.Event, seconds []fault.Second) error {
	m, err := spec.Follow()
	if err != nil {
		return err
	}
	spans := make([]series.Second, len(seconds))
	for i, s := range seconds {
		spans[i] = series.Second{From: s.From, To: s.To}
	}
	figures, found := m.Seconds(w.scrapes, lives(t, spec.Service, events), spans)
	switch {
	case !found:
		o.warnings = append(o.warnings, fmt.Sprintf("watched metric %s: no instance of %s published %s", m.Name, m.Service, spec.Metric))
	case !slices.ContainsFunc(figures, func(v float64) bool { return !math.IsNaN(v) }):
		o.warnings = append(o.warnings, fmt.Sprintf("watched metric %s: in no second is %s known of all instances of %s that ran", m.Name, spec.Metric, m.Service))
	}
	shown := result.CourseMetric{Name: m.Name, As: m.As}
	for _, v := range figures {
		shown.Values = append(shown.Values, finite(v))
	}
	o.course.shown.Watched = append(o.course.shown.Watched, shown)
	for _, b := range m.Judge(figures) {
		o.slo = append(o.slo, result.SLO{Metric: m.Name, Threshold: b.Bound, Observed: b.Observed, Met: b.Met})
	}
	since := time.Time{}
	for i, x := range o.course.effects {
		end := x.Asked.Add(time.Duration(x.Window * float64(time.Second)))
		o.course.watched[i] = append(o.course.watched[i], result.FaultWatched{
			Name:   m.Name,
			Before: finite(meanOf(figures, seconds, func(s fault.Second) bool { return !s.From.Before(since) && !s.To.After(x.Asked) })),
			Most:   finite(mostOf(figures, seconds, func(s fault.Second) bool { return s.To.After(x.Asked) && s.From.Before(end) })),
		})
		since = end
	}
	return nil
}

// lives are the times in which the instances of a service ran.
func lives(t archive.Trial, service string, events []fault.Event) []series.Instance {
	var out []series.Instance
	for _, in := range t.Instances {
		if in.Service != service {
			continue
		}
		life := series.Life{From: t.Started, To: t.Ended}
		x := series.Instance{Name: in.Name}
		running := true
		for _, e := range events {
			for _, a := range e.Instances {
				if a.Name != in.Name || e.Action == fault.Pause {
					continue
				}
				life.To, running = a.Done, false
				x.Lives = append(x.Lives, life)
				if !a.Launched.IsZero() {
					life, running = series.Life{From: a.Launched, To: t.Ended, Began: true}, true
				}
			}
		}
		if running {
			x.Lives = append(x.Lives, life)
		}
		out = append(out, x)
	}
	return out
}

func meanOf(figures []float64, seconds []fault.Second, in func(fault.Second) bool) float64 {
	sum, n := 0.0, 0
	for i, v := range figures {
		if in(seconds[i]) && !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n) // NaN of none
}

func mostOf(figures []float64, seconds []fault.Second, in func(fault.Second) bool) float64 {
	most := math.NaN()
	for i, v := range figures {
		if in(seconds[i]) && !math.IsNaN(v) && (math.IsNaN(most) || v > most) {
			most = v
		}
	}
	return most
}

// bounds are those on watched metrics, beside the objectives as written.
func bounds(exp *experiment.Experiment) []result.SLO {
	var out []result.SLO
	for _, w := range exp.Watch {
		for _, text := range w.SLO {
			out = append(out, result.SLO{Metric: w.Name, Threshold: text})
		}
	}
	return out
}

// faults joins what each fault cost in the trials: the worst of every figure.
func faults(trials []observed) []result.Fault {
	byNumber := map[int]*result.Fault{}
	for _, t := range trials {
		for i := range t.course.effects {
			x := &t.course.effects[i]
			f := inReport(x, t.course.watched[i])
			if known := byNumber[x.Number]; known != nil {
				worse(known, f)
			} else {
				byNumber[x.Number] = f
			}
		}
	}
	var out []result.Fault
	for _, n := range slices.Sorted(maps.Keys(byNumber)) {
		out = append(out, *byNumber[n])
	}
	return out
}

func inReport(x *fault.Effect, watched []result.FaultWatched) *result.Fault {
	f := &result.Fault{
		What: x.What, At: x.Planned, Trials: 1, BadSeconds: x.BadSeconds, Window: x.Window, Failed: x.Failed, Kinds: maps.Clone(x.Kinds),
		Before: faultFigures(x.Before), During: faultFigures(x.During), After: faultFigures(x.After), Watched: slices.Clone(watched),
	}
	if back, ok := x.Back(); ok {
		f.Back = finite(back.Sub(x.Asked).Seconds())
	}
	if x.Recovers {
		f.Recovered = finite(x.Recovered)
	}
	return f
}

func faultFigures(f fault.Figures) *result.FaultFigures {
	if f.P95 <= 0 {
		return nil
	}
	return &result.FaultFigures{P95: f.P95, P99: f.P99}
}

// worse takes over what was worse in another trial.
func worse(f, o *result.Fault) {
	f.Trials++
	f.Back, f.Recovered = longer(f.Back, o.Back), longer(f.Recovered, o.Recovered)
	f.BadSeconds, f.Window = max(f.BadSeconds, o.BadSeconds), max(f.Window, o.Window)
	if o.Failed > f.Failed {
		f.Failed, f.Kinds = o.Failed, o.Kinds
	}
	f.Before, f.During, f.After = slower(f.Before, o.Before), slower(f.During, o.During), slower(f.After, o.After)
	for i := range f.Watched {
		f.Watched[i].Before = more(f.Watched[i].Before, o.Watched[i].Before)
		f.Watched[i].Most = more(f.Watched[i].Most, o.Watched[i].Most)
	}
}

// longer is the longer of two times, of which nil never came.
func longer(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return finite(max(*a, *b))
}

// more is the larger of two, of which nil is not known.
func more(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return finite(max(*a, *b))
	}
}

func slower(a, b *result.FaultFigures) *result.FaultFigures {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	default:
		return &result.FaultFigures{P95: max(a.P95, b.P95), P99: max(a.P99, b.P99)}
	}
}

// courseOf is that of the trial that the faults cost most: the most failed
// requests, then the most seconds in which the objectives did not hold.
func courseOf(trials []observed) *result.Course {
	var worst *result.Course
	most := [2]uint64{}
	for _, t := range trials {
		var cost [2]uint64
		for i := range t.course.effects {
			cost[0] += t.course.effects[i].Failed
			cost[1] += uint64(max(t.course.effects[i].BadSeconds, 0))
		}
		if worst == nil || slices.Compare(cost[:], most[:]) > 0 {
			worst, most = t.course.shown, cost
		}
	}
	return worst
}
