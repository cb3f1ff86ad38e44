package experiment

import (
	"strings"
	"time"
)

// Stage is one leg of a ramp.
type Stage struct {
	// How long the leg takes; 0s jumps to the target at once.
	Duration time.Duration `key:"duration,need" eg:"30s"`
	// What the leg ends at: a rate such as 5000/s (a bare number beside
	// timeUnit), or a number of virtual users.
	Target Target `key:"target,need" eg:"100/s" max:"100000" min:"0"`
}

// Target is what a stage ends at: iterations per second for the arrival-rate
// executors, else virtual users.
type Target float64

// maxLength bounds the stages of a scenario together, as the load generator
// does.
const maxLength = 30 * 24 * time.Hour

// shape is what a scenario's rates and targets are read by.
type shape struct {
	rated  bool // targets are rates
	unit   timeUnit
	target string // of an example
}

// shapeOf looks ahead for what rates and targets are read by.
func shapeOf(s *section, ex executor) shape {
	is := shape{rated: hasRate(ex.name), target: "10"}
	if !is.rated {
		return is
	}
	is.target = "100/s"
	if p, ok := s.n.pair("timeUnit"); ok {
		is.unit.given, is.target = true, "100"
		if each, err := time.ParseDuration(p.value.text); err == nil && durationForm.MatchString(p.value.text) && each <= maxDuration {
			is.unit.each = each
		}
	}
	return is
}

func (*Stage) prepare(s *section) { s.examples = s.shape.examples() }

// examples has stages end at targets of this shape.
func (is shape) examples() *strings.Replacer {
	return strings.NewReplacer("target: 100/s", "target: "+is.target)
}

func (to *Target) read(f field) {
	switch {
	case f.shape.rated:
		*to = Target(f.rateIn(f.shape.unit))
	case rateForm.MatchString(f.n.text):
		f.errorf(f.n, "target %s is a rate, and this executor counts virtual users; write %s", f.n.text, f.example)
	default:
		*to = Target(f.whole())
	}
}

// checkRamp refuses a ramp that offers nothing or takes no time.
func (sc *Scenario) checkRamp(s *section, stages field) {
	var total time.Duration
	peak := max(float64(sc.StartRate), float64(sc.StartVUs))
	for _, stage := range sc.Stages {
		total += stage.Duration
		peak = max(peak, float64(stage.Target))
	}
	if total > maxLength {
		s.errorf(stages.place, "the stages take longer than %d days; write shorter ones", maxLength/(24*time.Hour))
	}
	if total == 0 {
		s.errorf(stages.place, "the stages take no time; write a duration above 0 in one of them")
	}
	if peak == 0 {
		s.errorf(stages.place, "the stages never rise above 0; write a target above 0 in one of them")
	}
}

func (*Target) describe(*generator, tag) *schema {
	return either(&schema{Type: "string", Pattern: ratePattern}, &schema{Type: "number", Minimum: "0"})
}
