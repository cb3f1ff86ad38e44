package scaling

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// theta are the coefficients of N/X = a + b(N−1) + cN(N−1), in which the law is
// linear: λ = 1/a, σ = b/a, κ = c/a. All are at least 0.
//
// Everything that an interval is wanted for (λ, σ, κ, the throughput at some
// size, the size at the peak) is a linear equation in theta. So one solver,
// least squares under bounds and at most one equation, serves the fit and all
// profiles.
type theta [3]float64

func (t theta) dot(u theta) float64 { return t[0]*u[0] + t[1]*u[1] + t[2]*u[2] }

func regressors(n float64) theta { return theta{1, n - 1, n * (n - 1)} }

// equality is the equation g·theta = h; none is no equation.
type equality struct {
	g theta
	h float64
}

var none = equality{}

type row struct {
	z theta
	y float64 // N/X
}

// problem minimises Σ (ln y − ln(theta·z))².
type problem struct {
	rows      []row
	coherence bool // whether c may be other than 0
	// least is the smallest a: it must stay above 0 for the law to be one.
	least float64
	// threshold is the sum of squares up to which values belong to an
	// interval; critical the F-quantile behind it. Both are 0 without one.
	threshold, critical float64
}

func newProblem(points []Point, coherence bool) *problem {
	p := &problem{coherence: coherence, least: math.Inf(1)}
	for _, pt := range points {
		y := pt.N / pt.X
		p.rows = append(p.rows, row{regressors(pt.N), y})
		p.least = min(p.least, 1e-6*y)
	}
	return p
}

func (p *problem) parameters() int {
	if p.coherence {
		return 3
	}
	return 2
}

// limit sets what belongs to an interval: the profile likelihood's region,
// S(v) ≤ S·(1 + F/df) with F the quantile for 1 and df degrees of freedom
// (Bates and Watts, 6.1). It needs no linear approximation of the law and
// respects the bounds.
func (p *problem) limit(sum float64, df int) {
	if df < 1 {
		return
	}
	p.critical = distuv.F{D1: 1, D2: float64(df)}.Quantile(Level)
	p.threshold = floor(sum, df) * (1 + p.critical/float64(df))
}

type solution struct {
	theta theta
	sum   float64 // of squares; +Inf if no theta satisfies the equation
}

// without solves with c, or with b and c, held at 0.
func (p *problem) without(c, b bool) solution {
	q := *p
	q.coherence = p.coherence && !c
	if !b {
		return q.solve(none)
	}
	return q.solve(equality{g: theta{0, 1}})
}

// solve is Gauss and Newton's method: each step solves the linear problem that
// touches the curve at the last theta. The region is convex, so a shortened
// step stays inside.
func (p *problem) solve(eq equality) solution {
	at, ok := p.step(eq, nil)
	if !ok {
		return solution{sum: math.Inf(1)}
	}
	s := solution{at, p.sum(at)}
	for range 60 {
		next, ok := p.step(eq, &s.theta)
		if !ok {
			return s
		}
		t, improved := p.shorten(s, next)
		if !improved || s.sum-t.sum <= 1e-13*s.sum {
			return s
		}
		s = t
	}
	return s
}

func (p *problem) shorten(from solution, to theta) (solution, bool) {
	for share := 1.0; share > 1e-4; share /= 2 {
		var t theta
		for i := range t {
			t[i] = from.theta[i] + share*(to[i]-from.theta[i])
		}
		if sum := p.sum(t); sum < from.sum {
			return solution{t, sum}, true
		}
	}
	return from, false
}

func (p *problem) sum(t theta) float64 {
	sum := 0.0
	for _, r := range p.rows {
		e := math.Log(r.y) - math.Log(t.dot(r.z))
		sum += e * e
	}
	return sum
}

// step minimises the linearised sum under the bounds: with three unknowns that
// can each be at its bound there are eight cases, and the best of the feasible
// ones is the optimum of this convex problem. Without a theta to start from it
// minimises the relative errors of y.
func (p *problem) step(eq equality, from *theta) (theta, bool) {
	var scale theta
	h, rhs := p.normal(from, &scale)
	base := theta{p.least}
	var g theta
	for i := range g {
		g[i] = eq.g[i] * scale[i]
	}
	right := eq.h - eq.g.dot(base)
	best, least, ok := theta{}, math.Inf(1), false
	for mask := range 8 {
		if !p.coherence && mask&4 != 0 {
			continue
		}
		x, feasible := faced{h, rhs, g, right, eq != none}.solve(mask)
		if !feasible {
			continue
		}
		value := 0.0
		for i := range 3 {
			value -= 2 * rhs[i] * x[i]
			for j := range 3 {
				value += h[i][j] * x[i] * x[j]
			}
		}
		if value < least {
			least, ok = value, true
			for i := range best {
				best[i] = base[i] + x[i]*scale[i]
			}
		}
	}
	return best, ok
}

// normal makes the normal equations of theta − base in units that give every
// column length 1, so that sizes of a million lose no precision.
func (p *problem) normal(from *theta, scale *theta) (h [3][3]float64, rhs theta) {
	target := func(r row) (weight, value float64) {
		if from == nil {
			return 1 / r.y, r.y
		}
		f := from.dot(r.z)
		return 1 / f, f * (1 + math.Log(r.y/f))
	}
	for _, r := range p.rows {
		w, _ := target(r)
		for i := range scale {
			scale[i] += w * w * r.z[i] * r.z[i]
		}
	}
	for i, s := range scale {
		scale[i] = 1
		if s > 0 {
			scale[i] = 1 / math.Sqrt(s)
		}
	}
	for _, r := range p.rows {
		w, v := target(r)
		v -= p.least * r.z[0]
		for i := range 3 {
			zi := w * r.z[i] * scale[i]
			rhs[i] += zi * w * v
			for j := range 3 {
				h[i][j] += zi * w * r.z[j] * scale[j]
			}
		}
	}
	return h, rhs
}

// faced is a quadratic problem restricted to a face of the region.
type faced struct {
	h     [3][3]float64
	rhs   theta
	g     theta
	right float64
	bound bool // whether g·x = right holds
}

// solve solves with only the unknowns of mask free. It is infeasible if an
// unknown falls below 0 or the equations have no single solution.
func (f faced) solve(mask int) (x theta, feasible bool) {
	var free []int
	for i := range 3 {
		if mask>>i&1 == 1 {
			free = append(free, i)
		}
	}
	n := len(free)
	var m [4][5]float64
	for a, i := range free {
		for b, j := range free {
			m[a][b] = f.h[i][j]
		}
		m[a][n], m[n][a] = f.g[i], f.g[i]
		m[a][4] = f.rhs[i]
	}
	norm := 0.0
	for _, i := range free {
		norm = math.Hypot(norm, f.g[i])
	}
	if f.bound && norm == 0 && f.right != 0 {
		return x, false
	}
	if f.bound && norm > 0 {
		// The equation's size must not decide what counts as singular.
		for a := range n {
			m[a][n] /= norm
			m[n][a] /= norm
		}
		m[n][4] = f.right / norm
		n++
	}
	if !eliminate(&m, n) {
		return x, false
	}
	for a, i := range free {
		if !(m[a][4] >= -roundoff) {
			return x, false
		}
		x[i] = max(0, m[a][4])
	}
	return x, true
}

// roundoff is what a 0 may look like after elimination, in units in which
// columns have length 1.
const roundoff = 1e-12

// eliminate solves the first n equations of m, whose right sides are in the
// last column, with row pivots. It is false if they have no single solution.
func eliminate(m *[4][5]float64, n int) bool {
	for c := range n {
		best := c
		for r := c; r < n; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		if !(math.Abs(m[best][c]) > 1e-13) {
			return false
		}
		m[c], m[best] = m[best], m[c]
		for r := range n {
			if r == c {
				continue
			}
			by := m[r][c] / m[c][c]
			for k := range m[r] {
				m[r][k] -= by * m[c][k]
			}
		}
	}
	for r := range n {
		m[r][4] /= m[r][r]
	}
	return true
}
