package load

import (
	"fmt"
	"path/filepath"
	"strings"

	"loadstone/lab/format"
)

// Asked says in a few words what load the plan asks for: its rates and numbers of
// virtual users, with the stages that they go through. Two plans that say the same
// ask for the same load, whatever chance or a slow system makes of it. It is empty
// if the plan has no scenarios.
func (p *Plan) Asked() string {
	var all []string
	for i := range p.Scenarios {
		all = append(all, p.Scenarios[i].asked())
	}
	return strings.Join(all, " + ")
}

func (s *Scenario) asked() string {
	switch s.Executor {
	case ConstantArrivalRate:
		return format.Setting(s.Rate) + "/s"
	case RampingArrivalRate:
		return stages(s.StartRate, s.Stages) + " per second"
	case RampingVUs:
		return stages(float64(s.StartVUs), s.Stages) + " virtual users"
	case SharedIterations:
		return fmt.Sprintf("%s shared by %s", format.Plural(s.Iterations, "iteration"), format.Plural(s.VUs, "virtual user"))
	case PerVUIterations:
		return fmt.Sprintf("%s with %s each", format.Plural(s.VUs, "virtual user"), format.Plural(s.Iterations, "iteration"))
	case Replay:
		if s.Log != nil {
			return fmt.Sprintf("replay of %s × %s", filepath.Base(s.Log.Path), format.Setting(s.Log.Speed))
		}
	}
	text := format.Plural(s.VUs, "virtual user")
	if ws := s.WebSocket; ws != nil && ws.Rate > 0 {
		text += fmt.Sprintf(", %d of them sending %s/s each", ws.Senders, format.Setting(ws.Rate))
	}
	return text
}

// stages is a ramp in full: 0 to 100 in 30s to 200 in 1m0s.
func stages(from float64, all []Stage) string {
	texts := []string{format.Setting(from)}
	for _, st := range all {
		texts = append(texts, fmt.Sprintf("%s in %v", format.Setting(st.Target), st.Duration))
	}
	return strings.Join(texts, " to ")
}
