package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/perturb"
	"loadstone/lab/topology"
)

const (
	// perturbWarmup is until closed load is in its stride; its last windows say
	// who is busy.
	perturbWarmup = 3 * time.Second
	// leastPerturb is the least time that is worth it unasked: four blocks.
	leastPerturb = 12 * time.Second
	// mostLonger is the part of a run's time that perturbing may add unasked.
	mostLonger = 3 // a third

	// slowTakes is how much longer perturbing takes unless told how long, where a slot has to be
	// longer than a second and there are fewer than slowRate requests in one: so few that their
	// number alone says little, or that queues take long to move.
	slowTakes, slowRate = 2, 500

	// mostUsers is as many connections as there are ephemeral ports to one address, about,
	// with some left for everybody else.
	leastUsers, mostUsers = 16, 20_000
	// usersPerBusy is how many virtual users there are for each request that was
	// under way at the capacity: enough that the limit is never idle, and not so
	// many that their queue changes what the system does.
	usersPerBusy = 2
	// usersMore is by how much they are multiplied, up to usersMost for each, where the
	// warm-up shows that the load carries less than enoughLoad of the capacity: what is
	// perturbed then is not at its limit, and looks as if it did not matter.
	usersMore, usersMost = 3, 18
	enoughLoad           = 0.9
	// roomAbove is how far above its capacity a system is to be offered load: as far as more of a limit can move it.
	roomAbove = 1.25
	// full is the utilisation of a component's CPU from which on it is at its limit.
	full = 0.9
)

// perturbBudget is how long the slots of one trial of each variant may take; 0
// if none is perturbed.
func (k *execution) perturbBudget() time.Duration {
	e := k.Experiment
	switch {
	case e.Measure != experiment.Capacity || e.Perturb.Off:
		return 0
	case e.Perturb.Budget > 0:
		return e.Perturb.Budget
	case e.Perturb.Asked:
		return experiment.DefaultPerturbBudget
	}
	budget := min(experiment.DefaultPerturbBudget, time.Duration(e.Trials)*k.trialTime()/mostLonger-perturbWarmup-k.lightTime())
	if budget < leastPerturb {
		return 0
	}
	return budget
}

// perturbTime is what perturbing adds to the last trial of each variant, at most.
func (k *execution) perturbTime() time.Duration {
	budget := k.perturbBudget()
	if budget == 0 {
		return 0
	}
	return budget + perturbWarmup
}

// perturb perturbs the system in the variant's last trial, once its capacity
// is known. It does so after everything else, so that it can change nothing of
// that. What keeps it from being done is a warning: it is one method of three.
func (m *trialRun) perturb(ctx context.Context, scenario load.Scenario) error {
	budget := m.perturbBudget()
	if m.trial.Round != m.Experiment.Trials {
		return nil
	}
	found, at := m.trial.Conclude()
	if at != nil {
		if err := m.light(ctx, scenario, &at.Result); err != nil {
			return err
		}
	}
	if budget == 0 {
		return nil
	}
	if at != nil && found.LowerBound { // closed load would seek a limit that the search did not reach
		return nil
	}
	if why := m.unfit(at); why != "" {
		m.trial.Warnings = append(m.trial.Warnings, "no component was perturbed: "+why)
		return nil
	}
	why := ": there are no control groups"
	limited, parts := components(m.trial.Instances, running(m.systems[m.trial.Variant]), limiter(ctx, m.up.Hosts(), func(err error) {
		why = ""
		m.trial.Warnings = append(m.trial.Warnings, fmt.Sprintf("a CPU limit cannot be changed: %v", err))
	}))
	why = m.warnOfParts(parts, why)
	sized, warnings := pools(ctx, m.trial.Instances, m.systems[m.trial.Variant])
	m.trial.Warnings = append(m.trial.Warnings, warnings...)
	if len(limited) == 0 && len(sized) == 0 {
		m.trial.Warnings = append(m.trial.Warnings, "no component was perturbed"+why)
		return nil
	}
	c := perturb.DefaultConfig()
	if m.Experiment.Perturb.Budget == 0 && slow(c, &at.Result) {
		budget *= slowTakes
	}
	m.Events.perturbing(budget)
	c.Budget = budget
	m.offered++
	c.Seed = m.seed()
	w := &perturber{config: c, seen: m.seen, components: limited, pools: sized}
	err := m.perturbUnder(ctx, w, scenario, &at.Result)
	if w.session != nil {
		w.failed = errors.Join(w.failed, w.session.Close(ctx))
		m.trial.Perturbations = w.session.Slots()
	}
	if w.failed != nil {
		m.trial.Warnings = append(m.trial.Warnings, fmt.Sprintf("perturbing ended after %d slots: %v", len(m.trial.Perturbations), w.failed))
	}
	if err != nil {
		return fmt.Errorf("offer load (perturbation): %w", err)
	}
	return nil
}

// unfit is why nothing can be perturbed at a capacity; empty if it can.
func (m *trialRun) unfit(at *archive.Measure) string {
	most := m.search.MaxRate
	switch trials := m.Experiment.Trials; {
	case at == nil && trials > 1:
		return fmt.Sprintf("that is done in the last of the %d trials, and no rate was held in that one", trials)
	case at == nil:
		return "no rate was held"
	case most > 0 && most < roomAbove*at.Result.Throughput(): // what limits would move nothing, either
		return fmt.Sprintf("that takes room above the capacity, and maxRate allows %.4g req/s", most)
	}
	return ""
}

// slow says whether perturbing takes longer than elsewhere of what did so at its capacity: with
// as many more users that wait, a response takes as much longer, and as long as all of the
// fewest take one after the other at least.
func slow(c perturb.Config, at *load.Result) bool {
	rate := at.Throughput()
	response := max(usersPerBusy*at.Response.Mean/1000, leastUsers/max(rate, 1e-6))
	return rate < slowRate && c.Slow(rate, time.Duration(response*float64(time.Second)))
}

// perturbUnder offers closed load, and more of it until the system is as busy as at its
// capacity; then w perturbs it for the rest of that load.
func (m *trialRun) perturbUnder(ctx context.Context, w *perturber, scenario load.Scenario, at *load.Result) error {
	m.pace(&scenario)
	for times := float64(usersPerBusy); ; times *= usersMore {
		p := steady(m.base, scenario, at, times, w.config.Budget)
		p.Seed = w.config.Seed
		w.needs, w.ended = 0, false
		if times < usersMost && p.Scenarios[0].VUs < mostUsers {
			w.needs = enoughLoad * at.Throughput()
		}
		_, err := m.generator.Run(ctx, p, func(window load.Window) string { return w.window(ctx, window) })
		if err != nil || w.failed != nil || w.session != nil || ctx.Err() != nil {
			return err
		}
	}
}

// underWay is how many iterations were under way at once, by Little's law: their rate
// times the time that one takes, with its pauses where it is more than a request.
func underWay(r *load.Result) float64 {
	if len(r.Journeys) == 0 {
		return r.Throughput() * r.Response.Mean / 1000
	}
	sum := 0.0
	for _, j := range r.Journeys {
		sum += float64(j.Iterations) / r.Seconds() * j.Duration.Mean / 1000
	}
	return sum
}

// steady is closed load at about the knee: it has so many times the users that were
// busy at the capacity.
func steady(base load.Plan, s load.Scenario, at *load.Result, times float64, budget time.Duration) load.Plan {
	s.Executor, s.Stages = load.ConstantVUs, nil
	s.VUs = int(min(max(times*underWay(at), leastUsers), mostUsers))
	s.Duration, s.StartTime, s.GracefulStop = perturbWarmup+budget, 0, leastDrain
	base.Scenarios, base.Warmup, base.StopOnOverload = []load.Scenario{s}, perturbWarmup, false
	return base
}

// warnOfParts warns of services of which not all can be changed. Where there are some, why nothing could be is known.
func (m *trialRun) warnOfParts(parts []string, why string) string {
	for _, service := range parts {
		why = ""
		m.trial.Warnings = append(m.trial.Warnings, fmt.Sprintf("the CPU of %s is not perturbed: not all of its instances can be changed from here", service))
	}
	return why
}

// component is a service whose CPU can be changed.
type component struct {
	name      string
	instances []string
	host      host.Host // of its first instance
	cores     float64   // limit of each instance; 0 if it has none
	used      reading   // before
}

// components are the services that run and whose CPU can be changed: limiter finds
// the machine that can do it, nil if there is none. Of parts only some instances can be, which says nothing of
// the whole.
func components(instances []topology.Instance, runs map[string]int, limiter func(instance string) host.Host) (out []component, parts []string) {
	for _, in := range instances {
		if runs[in.Service] == 0 {
			continue
		}
		h := limiter(in.Name)
		if h == nil && in.Unseen {
			parts = append(parts, in.Service)
		}
		if h == nil {
			continue
		}
		i := slices.IndexFunc(out, func(c component) bool { return c.name == in.Service })
		if i < 0 {
			i = len(out)
			out = append(out, component{name: in.Service, host: h})
			if in.Enforced {
				out[i].cores = in.LimitCPUs
			}
		}
		out[i].instances = append(out[i].instances, in.Name)
	}
	isPart := func(c component) bool { return slices.Contains(parts, c.name) }
	parts = slices.DeleteFunc(slices.Compact(parts), func(service string) bool { // nothing can be changed of others
		return !slices.ContainsFunc(out, func(c component) bool { return c.name == service })
	})
	return slices.DeleteFunc(out, isPart), parts
}

// limiter is the machine that can change the CPU of an instance. Where that is possible and
// fails all the same, as when another lab is at it, the reason is told.
func limiter(ctx context.Context, hosts []host.Host, failed func(error)) func(instance string) host.Host {
	return func(instance string) host.Host {
		for _, h := range hosts {
			err := h.Limit(ctx, instance, 1)
			if err == nil {
				return h
			}
			if !errors.Is(err, host.ErrUnsupported) {
				failed(err)
			}
		}
		return nil
	}
}

// knob is what changes the CPU of a component that has used so much since before.
func (c *component) knob(now reading) perturb.Knob {
	cores := float64(c.host.Machine().Cores)
	k := perturb.Share(c.name, c.instances, c.host.Limit)
	if c.cores > 0 {
		cores = c.cores * float64(len(c.instances))
	} else {
		k.DownOnly = true
	}
	k.Utilisation = c.cpu(now) / cores
	return k
}

// cpu is how many cores it has used since before.
func (c *component) cpu(now reading) float64 {
	return (now.cpu - c.used.cpu).Seconds() / max(now.at.Sub(c.used.at).Seconds(), 1e-3)
}

// perturber makes a session once the warm-up has shown who is busy.
type perturber struct {
	config     perturb.Config
	seen       *usage
	components []component
	pools      []pool
	needs      float64      // requests a second that the warm-up has to reach; 0 for none
	warm       *load.Window // the last of the warm-up
	ended      bool         // the load was told to end, and what still comes of it says nothing
	session    *perturb.Session
	failed     error
}

// window passes windows on to the session.
func (p *perturber) window(ctx context.Context, w load.Window) (stop string) {
	switch {
	case p.failed != nil || p.ended:
		return ""
	case w.Warmup:
		if p.warm == nil {
			for i := range p.components {
				p.components[i].used = p.seen.of(p.components[i].instances)
			}
		}
		p.warm = &w
		return ""
	case p.session == nil && p.short():
		p.warm, p.ended = nil, true
		return "there are too few users"
	case p.session == nil:
		p.failed = p.begin(ctx)
	}
	if p.failed == nil {
		stop, p.failed = p.session.Window(ctx, w)
	}
	if p.failed != nil {
		return perturb.Done
	}
	return stop
}

// short says whether the end of the warm-up carried less than it has to, although no component
// was near its CPU limit: where one is, more users only wait longer.
func (p *perturber) short() bool {
	if p.warm == nil || p.warm.Seconds <= 0 {
		return false
	}
	for i := range p.components {
		c := &p.components[i]
		if limit := c.cores * float64(len(c.instances)); limit > 0 && c.cpu(p.seen.of(c.instances)) >= full*limit {
			return false
		}
	}
	return float64(p.warm.Requests-min(p.warm.Failed, p.warm.Requests))/p.warm.Seconds < p.needs
}

func (p *perturber) begin(ctx context.Context) error {
	var knobs []perturb.Knob
	for i := range p.components {
		c := &p.components[i]
		knobs = append(knobs, c.knob(p.seen.of(c.instances)))
	}
	client := metricsClient()
	defer client.CloseIdleConnections()
	for i := range p.pools {
		knobs = append(knobs, p.pools[i].knob(ctx, client))
	}
	p.session = perturb.NewSession(p.config, knobs)
	if p.warm == nil {
		return nil
	}
	_, err := p.session.Window(ctx, *p.warm)
	return err
}
