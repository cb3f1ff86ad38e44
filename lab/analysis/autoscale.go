package analysis

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/fault"
	"loadstone/lab/load"
	"loadstone/lab/result"
)

// autoscaled is what became of the replicas of one service that was scaled.
type autoscaled struct {
	service   string
	looks     []archive.Scaling
	instances []fault.Affected
}

// scalings are those of a trial.
type scalings []autoscaled

// scalingOf reads a trial's; there are none if there is no file of them.
func scalingOf(dir string) (out scalings, err error) {
	err = archive.ReadLines(dir, archive.ScalingFile, func(line archive.Scaling) {
		i := slices.IndexFunc(out, func(s autoscaled) bool { return s.service == line.Service })
		if i < 0 {
			i, out = len(out), append(out, autoscaled{service: line.Service})
		}
		if line.Instances != nil {
			out[i].instances = line.Instances
		} else if line.Desired > 0 {
			out[i].looks = append(out[i].looks, line)
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

// replicas is how many instances answered at a moment, and how many ran: those that are
// starting cost as much.
func (s *autoscaled) replicas(t archive.Trial, at time.Time) (answering, running int) {
	for _, in := range t.Instances {
		if in.Service != s.service {
			continue
		}
		since := func(when func(a fault.Affected) time.Time) bool {
			is := true // from the beginning
			for _, a := range s.instances {
				if a.Name == in.Name && !at.Before(a.Done) { // cycles are in their order
					is = !when(a).IsZero() && !at.Before(when(a))
				}
			}
			return is
		}
		if since(func(a fault.Affected) time.Time { return a.Ready }) {
			answering++
		}
		if since(func(a fault.Affected) time.Time { return a.Undone }) {
			running++
		}
	}
	return answering, running
}

// course is how many replicas there were and how busy, second by second.
func (s *autoscaled) course(t archive.Trial, seconds []fault.Second) []result.CourseMetric {
	replicas := result.CourseMetric{Name: "replicas of " + s.service, As: "value"}
	busy := result.CourseMetric{Name: "% busy, " + s.service, As: "value"}
	for _, second := range seconds {
		at := second.From.Add(second.To.Sub(second.From) / 2)
		answering, _ := s.replicas(t, at)
		replicas.Values = append(replicas.Values, finite(float64(answering)))
		share := math.NaN()
		if i := slices.IndexFunc(s.looks, func(l archive.Scaling) bool { return !l.At.Before(at) }); i >= 0 && s.looks[i].Ready > 0 {
			share = 100 * s.looks[i].Utilisation // of the time until that look
		}
		busy.Values = append(busy.Values, finite(share))
	}
	return []result.CourseMetric{replicas, busy}
}

// figures are how many replicas each scaled service had in the measured part: how many ran on
// average, which is what they cost, and how many answered at the least and at the most.
func (all scalings) figures(t archive.Trial, r *load.Result) (out []result.Ratio) {
	const step = 100 * time.Millisecond
	for _, s := range all {
		least, most, sum, n := math.Inf(1), 0.0, 0.0, 0.0
		for at := r.From; at.Before(r.To); at = at.Add(step) {
			answering, running := s.replicas(t, at)
			least, most = min(least, float64(answering)), max(most, float64(answering))
			sum, n = sum+float64(running), n+1
		}
		if n > 0 {
			figure := func(name string, value float64) result.Ratio {
				return result.Ratio{Name: name, Component: s.service, Value: value}
			}
			out = append(out, figure("replicas on average", sum/n), figure("replicas at the least", least), figure("replicas at the most", most))
		}
	}
	return out
}

// has says whether a service was scaled.
func (all scalings) has(service string) bool {
	return slices.ContainsFunc(all, func(s autoscaled) bool { return s.service == service })
}
