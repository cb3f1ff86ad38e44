package report

import "loadstone/lab/term"

// scaling writes how capacity grew with the size of what was swept.
func (s *summary) scaling() {
	r := s.result
	if r.Scaling == nil {
		return
	}
	s.line("")
	s.prose("  ", "scaling of "+r.Scaling.Service+" "+r.Scaling.Setting, term.Bold)
	for _, text := range scalingSentences(r.Scaling, term.Printable(r.RateUnit())) {
		s.prose("    ", text, term.Plain)
	}
	if l := r.Scaling.Law; l != nil {
		for _, warning := range l.Warnings {
			s.prose("    ", warning, term.Yellow)
		}
	}
}
