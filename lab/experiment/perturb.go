package experiment

import "time"

// leastPerturb is time for three pairs of slots: with less there are no
// intervals.
const leastPerturb = 10 * time.Second

// DefaultPerturbBudget is that of an experiment that asks to be perturbed and
// says no more.
const DefaultPerturbBudget = 30 * time.Second

// read reads whether to perturb, or how long that may take.
func (to *Perturb) read(f field) {
	if !f.given() {
		return
	}
	if f.n.kind == boolean {
		to.Asked = f.boolean()
		to.Off = !to.Asked
		return
	}
	s := f.section(f.n, f.place, "perturb", "perturb: true, perturb: false or "+f.example)
	if s == nil {
		return
	}
	to.Asked = true
	if b := s.may("budget", "budget: 30s"); b.given() {
		to.Budget = b.duration(leastPerturb)
	}
	s.done()
}
