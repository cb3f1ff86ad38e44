package cli

import (
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/format"
)

// pace tells how long a run still takes: what is known before of each trial, the
// time under load, and what the trials that have ended took beyond that to start,
// seed, settle and stop. That differs between variants, so a variant's own trials
// count where it has had one, and those of the others where it has not.
type pace struct {
	trials []archive.Planned
	load   []time.Duration // of each trial
	ended  int
	beyond map[string][]time.Duration // by variant; below 0 where a search ended early
}

func newPace(trials []archive.Planned, load []time.Duration) *pace {
	return &pace{trials: trials, load: load, beyond: make(map[string][]time.Duration)}
}

// end takes note of a trial and how long all of it took.
func (p *pace) end(t archive.Planned, took time.Duration) {
	if p.ended >= len(p.trials) {
		return
	}
	p.beyond[t.Variant] = append(p.beyond[t.Variant], took-p.load[p.ended])
	p.ended++
}

// left is how long what is to come takes, when the present trial has taken so long;
// measured is false before the first trial has ended: it takes at least as long then.
func (p *pace) left(present time.Duration) (left time.Duration, measured bool) {
	for i := p.ended; i < len(p.trials); i++ {
		each := max(0, p.load[i]+p.expected(p.trials[i].Variant))
		if i == p.ended {
			each = max(0, each-present)
		}
		left += each
	}
	return left, p.ended > 0
}

// expected is the time of a variant's trial beyond its load.
func (p *pace) expected(variant string) time.Duration {
	if own := p.beyond[variant]; len(own) > 0 {
		return mean(own)
	}
	var all []time.Duration
	for _, of := range p.beyond {
		all = append(all, mean(of))
	}
	return mean(all)
}

func mean(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range ds {
		sum += d
	}
	return sum / time.Duration(len(ds))
}

// leftText is how long the run still takes, in words.
func (p *pace) leftText(present time.Duration) string {
	left, measured := p.left(present)
	if !measured {
		if left == 0 { // the length of a script is not known
			return "time left not known yet"
		}
		return "at least " + format.Remaining(left) + " left"
	}
	return "about " + format.Remaining(left) + " left"
}
