package engine

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// valueTally is what values that one step extracts under one name add up to.
type valueTally struct {
	count         uint64
	sum, min, max float64
	last          float64
	lastAt        time.Duration           // when the answer with it had come
	distribution  *hdrhistogram.Histogram // nil until the first
}

// add adds a value of an answer that came at a time.
func (t *valueTally) add(v float64, at time.Duration) {
	one := valueTally{count: 1, sum: v, min: v, max: v, last: v, lastAt: at}
	t.summarise(&one)
	record(t.distribution, int64(math.Round(v*load.ValueScale)))
}

// merge adds what from counted.
func (t *valueTally) merge(from *valueTally) {
	if from.count > 0 {
		t.summarise(from)
		t.distribution.Merge(from.distribution)
	}
}

// summarise adds what from counted, without its distribution.
func (t *valueTally) summarise(from *valueTally) {
	if t.count == 0 {
		t.min, t.max = from.min, from.max
	}
	if t.count == 0 || from.lastAt >= t.lastAt {
		t.last, t.lastAt = from.last, from.lastAt
	}
	t.min, t.max = min(t.min, from.min), max(t.max, from.max)
	t.count += from.count
	t.sum += from.sum
	if t.distribution == nil {
		t.distribution = load.NewValueHistogram()
	}
}

// clear empties the tally. The histogram stays, so that it is made once.
func (t *valueTally) clear() {
	if t.count > 0 {
		t.distribution.Reset()
	}
	*t = valueTally{distribution: t.distribution}
}

// values returns what step k of scenario i extracted as metrics.
func (r *run) values(t *sums, i, k int) ([]load.ValueResult, error) {
	s := &r.plan.Scenarios[i]
	var out []load.ValueResult
	for _, name := range s.Steps[k].Metrics() {
		tally := &t.values[r.ids[i].values[k][name]]
		v, err := tally.result()
		if err != nil {
			return nil, err
		}
		v.Scenario, v.Step, v.Name = s.Name, s.Steps[k].Name, name
		if v.Count > 0 {
			v.LastAt = r.clock.wall(tally.lastAt)
		}
		out = append(out, v)
	}
	return out, nil
}

// result is the tally in a Result.
func (t *valueTally) result() (load.ValueResult, error) {
	out := load.ValueResult{Count: t.count, Sum: t.sum, Min: t.min, Max: t.max, Last: t.last}
	if t.count == 0 {
		return out, nil
	}
	err := out.SetDistribution(t.distribution)
	return out, err
}

// addValue records a value of the answer to a request.
func (s *shard) addValue(index int, intended, done time.Duration, v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(intended).values[index].add(v, done)
}

// measure records a value that is a metric.
func (u *user) measure(e *extraction, text string) error {
	v, err := strconv.ParseFloat(text, 64)
	switch text {
	case "true":
		v, err = 1, nil
	case "false":
		v, err = 0, nil
	}
	if err != nil || !(v >= 0 && v <= load.MaxValue) {
		return fmt.Errorf("step %q: its answer has %.40q for {%s}, and a metric is true, false or a number from 0 to %.0f", u.step().name, text, e.name, float64(load.MaxValue))
	}
	u.loop.shard.addValue(e.metric, u.intended, u.done, v)
	return nil
}
