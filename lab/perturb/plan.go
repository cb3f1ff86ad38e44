package perturb

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Steps are the factors that a resource is multiplied by, in the pairs that
// make a block. The large ones tell 4.5 times as much as the small ones, which
// are there to see whether small changes are answered alike; so they come less
// often, and not at all where queues have to settle, which takes twice as long after them.
var (
	large = [2]float64{0.8, 1.25}
	small = [2]float64{0.9, 1.1}
	down  = [2]float64{0.8, 0.9}
	// lowered is down where queues have to settle.
	lowered = [2]float64{0.8, 0.8}
)

// Settles is how many times the mean response time it takes until queues have moved: all that
// waits before one component is worked off by what another gives it less, a fifth of the throughput
// at the large steps, and by Little's law it is the response time's worth of it.
const Settles = 5

// lengths are those of a plan's slots, in windows (of a second): so many that count, after
// so many in which queues settle.
type lengths struct{ settle, count int }

func (l lengths) windows() int { return l.settle + l.count }

const (
	// leastSlots are those of four blocks for each of two arms, and the first: with two blocks each
	// an interval is 4.3 deviations of its mean to either side, with four 2.4.
	leastSlots = 1 + 2*4*blockSlots
	// fewestSlots are those of two blocks for each of three arms: two that may limit
	// equally, and all others. With fewer it is not known whether they do.
	fewestSlots = 1 + 3*2*blockSlots
)

// lengths are how long slots are where there are so many requests a second, and each takes so
// long. Those that count have as many requests as the configuration asks for, and are
// no more than leaves time for leastSlots, because short slots say something, and too few of
// them nothing. Those before are until queues have moved, but for the part of a slot that may
// pass before its setting is in force, and are no more than leaves time for fewestSlots.
func (c Config) lengths(rate float64, response time.Duration) lengths {
	seconds := int(c.Budget / time.Second)
	need := math.Ceil(float64(c.MinRequests) / max(rate, 1e-6))
	l := lengths{count: int(min(max(need, 1), float64(max(seconds/leastSlots, 1)), float64(max(c.MaxWindows, 1))))}
	l.settle = max(min(c.settling(response), seconds/fewestSlots-l.count), 0)
	return l
}

// settling is for how many windows queues move after a step.
func (c Config) settling(response time.Duration) int {
	return int(math.Ceil(max(Settles*response.Seconds()-lateSet, 0)))
}

// Enough is the least budget that has time for queues to settle in every slot, where a
// request takes so long.
func Enough(response time.Duration) time.Duration {
	c := DefaultConfig()
	return time.Duration(fewestSlots*(c.settling(response)+1)) * time.Second
}

// Slow says whether slots are longer than a second where there are so many requests a
// second and each takes so long, if there is time for that.
func (c Config) Slow(rate float64, response time.Duration) bool {
	return rate < float64(c.MinRequests) || c.settling(response) > 0
}

// fitting is c with no more singles than the budget has time for if slots are so
// many windows long: two blocks for each of them and for the group of
// the others. With less there would be intervals of none.
func (c Config) fitting(windows int) Config {
	slots := int(c.Budget/time.Second) / max(windows, 1)
	blocks := (slots - 1) / blockSlots
	c.Singles = min(c.Singles, max(blocks/2-1, 1))
	return c
}

const smallEvery = 3 // blocks of a component

// splitAfter is how many blocks say enough of a group to split it. It is fewer than
// MinBlocks, because in the default budget as many of every arm would leave no time
// for the members; a group that is split for nothing costs a block of each.
const splitAfter = 2

// step is the setting of one slot: arm is -1 for none.
type step struct {
	arm    int
	factor float64
}

var unperturbed = step{arm: -1, factor: 1}

// arm is what is perturbed together.
type arm struct {
	knobs   []int // in the order given, sorted
	targets []Target
	down    bool
	blocks  int  // planned so far
	closed  bool // split into its members
	// utilisation is that of the busiest knob.
	utilisation float64
}

// planner decides what comes next. The same seed and the same slots lead to the
// same plan. It belongs to one goroutine.
type planner struct {
	config Config
	slow   bool // queues have to settle
	knobs  []Knob
	random *rand.Rand
	arms   []arm
	queue  []step
}

func newPlanner(c Config, knobs []Knob) *planner {
	p := &planner{config: c, knobs: knobs, random: rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))}
	order := make([]int, len(knobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(knobs[b].Utilisation, knobs[a].Utilisation) })
	n := min(max(c.Singles, 0), len(order))
	for _, k := range order[:n] {
		p.add(k)
	}
	if len(order) > n {
		p.add(order[n:]...)
	}
	return p
}

func (p *planner) add(knobs ...int) {
	a := arm{knobs: slices.Sorted(slices.Values(knobs))}
	for _, k := range a.knobs {
		a.targets = append(a.targets, p.knobs[k].Target)
		a.down = a.down || p.knobs[k].DownOnly
		a.utilisation = max(a.utilisation, p.knobs[k].Utilisation)
	}
	p.arms = append(p.arms, a)
}

// next is the setting of the slot after slots; ok is false if there is none.
// left is how many more slots the budget allows.
func (p *planner) next(slots []Slot, left int) (s step, ok bool) {
	if len(p.knobs) == 0 {
		return step{}, false
	}
	if len(slots) == 0 {
		return unperturbed, true
	}
	if len(p.queue) == 0 {
		found := Estimate(slots)
		p.split(found)
		p.refill(found)
	}
	if len(p.queue) == 0 {
		return step{}, false // every interval is narrow enough
	}
	// A block is begun only if there is time to end it.
	begins := p.queue[0].arm >= 0 && slots[len(slots)-1].Targets == nil
	if begins && left < blockSlots {
		return step{}, false
	}
	s, p.queue = p.queue[0], p.queue[1:]
	return s, true
}

// blockSlots is how many slots a block adds: its two, and an unperturbed one.
const blockSlots = 3

// refill plans one block for each arm whose interval is not narrow yet, in random
// order: for those with the fewest blocks, so that the members of a group that was
// split catch up first. It plans nothing if all are narrow.
func (p *planner) refill(found []Elasticity) {
	var open []int
	for _, i := range p.random.Perm(len(p.arms)) {
		a := &p.arms[i]
		if a.closed || p.known(a, found) {
			continue
		}
		if len(open) > 0 && a.blocks < p.arms[open[0]].blocks {
			open = open[:0]
		}
		if len(open) == 0 || a.blocks == p.arms[open[0]].blocks {
			open = append(open, i)
		}
	}
	if slices.ContainsFunc(p.arms, func(a arm) bool { return a.closed }) {
		// Time may not do for all members of a group: the busiest are the likeliest.
		slices.SortStableFunc(open, func(i, j int) int { return cmp.Compare(p.arms[j].utilisation, p.arms[i].utilisation) })
	}
	for _, i := range open {
		a := &p.arms[i]
		a.blocks++
		pair := p.pair(a)
		if p.random.IntN(2) == 1 {
			pair[0], pair[1] = pair[1], pair[0]
		}
		p.queue = append(p.queue, step{i, pair[0]}, step{i, pair[1]}, unperturbed)
	}
}

// pair is the steps of an arm's block.
func (p *planner) pair(a *arm) [2]float64 {
	switch {
	case a.down && p.slow:
		return lowered
	case a.down:
		return down
	case a.blocks%smallEvery == 0 && !p.slow:
		return small
	}
	return large
}

// split has the members of a group that matters perturbed by themselves.
func (p *planner) split(found []Elasticity) {
	for i := range p.arms {
		a := &p.arms[i]
		if a.closed || len(a.knobs) < 2 {
			continue
		}
		e := find(found, a.targets)
		if e == nil || e.Blocks < min(splitAfter, p.config.MinBlocks) || e.Throughput.Low <= 0 {
			continue
		}
		a.closed = true
		members := a.knobs // add may move p.arms
		for _, k := range members {
			p.add(k)
		}
	}
}

// known says whether an arm's interval is narrow enough.
func (p *planner) known(a *arm, found []Elasticity) bool {
	e := find(found, a.targets)
	return e != nil && e.Blocks >= p.config.MinBlocks && e.Throughput.High-e.Throughput.Low <= 2*p.config.Narrow
}

func find(found []Elasticity, targets []Target) *Elasticity {
	for i := range found {
		if slices.Equal(found[i].Targets, targets) {
			return &found[i]
		}
	}
	return nil
}
