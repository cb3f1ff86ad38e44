package selftest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"loadstone/lab/selftest/plant"
)

// The ports of every plant. Each instance has an address of its own.
const (
	port      = 8080
	adminPort = 9090
)

// project is a planted system before it is written: services in the order of the
// way that a request takes, the first taking the load.
type project struct {
	services []service
	// feed is where a request's key comes from, in the experiment's words.
	feed string
	// maxRate ends the search where that is what is planted, and rate is where it
	// starts. Zero where it is not written.
	maxRate, rate float64
	// checks are how often the generator, which has one thread then, searches
	// every answer for what is not in it. Zero where the generator is not what is
	// planted.
	checks int
	// outside is what the last service calls that is no service of the system; nil if there
	// is none.
	outside *plant.Config
	// objective is another one than usual, in ms; 0 for the usual one.
	objective float64
	// atOnce is how many requests are worked on at a time where they wait; 0 if that is not
	// what is planted.
	atOnce float64
	// users each think for a second after each request, and are all of the load: their number
	// bounds it. 0 where its capacity is measured.
	users int
	// apart is how many times the CPU of limit a second variant has; 0 for one variant alone.
	apart float64
	limit string
}

// truth is what limits it, with what the seed gives.
func (p project) truth(t Truth) Truth {
	t.AtOnce = p.atOnce
	return t
}

// call has the last service call what is outside, which answers at an address.
func (p project) call(at net.Addr) {
	host, port, _ := net.SplitHostPort(at.String()) // it is one that was listened on
	n, _ := strconv.Atoi(port)
	s := &p.services[len(p.services)-1].plant
	s.Calls = []plant.Call{{Hosts: host, Port: n, Visits: 1}}
}

type service struct {
	name      string
	plant     plant.Config
	replicas  int
	cpus      float64 // 0 for one without a share
	memory    string  // as Compose writes it; empty for one without a limit
	resources []string
}

// What a plant tells of itself, in the words of x-resources.
const (
	poolResource  = `connections: {kind: pool, size: plant_pool_size, in_use: plant_pool_in_use, waiting: plant_pool_waiting, wait_seconds: plant_pool_wait_seconds_total, control: {put: /pool, value: "{n}"}}`
	lockResource  = `ledger: {kind: lock, busy_seconds: plant_lock_busy_seconds_total, wait_seconds: plant_lock_wait_seconds_total}`
	wireResource  = `wire: {kind: lock, busy_seconds: plant_wire_busy_seconds_total, wait_seconds: plant_wire_wait_seconds_total}`
	stageResource = `%s: {kind: stage, done: plant_stage_done_total, busy_seconds: plant_stage_busy_seconds_total, backpressured_seconds: plant_stage_backpressured_seconds_total, lag: plant_stage_lag%s}`
	queueResource = `jobs: {kind: queue, depth: plant_queue_depth, capacity: plant_queue_capacity, done: plant_queue_done_total}`
)

// one is a service of one instance with so much of a core and so much CPU time to
// a request.
func one(name string, cpus, cpuMillis float64) service {
	s := service{name: name, replicas: 1, cpus: cpus, plant: plant.DefaultConfig()}
	s.plant.CPUMillis = cpuMillis
	return s
}

// calls has s call all instances of other once for each request, in turn.
func (s service) calls(other string) service {
	s.plant.Calls = append(s.plant.Calls, plant.Call{Hosts: hosts(other), Port: port, Visits: 1})
	return s
}

// stage makes s a step of a pipeline, after the step called so of another service;
// empty for the first.
func (s service) stage(name string, each float64, buffer int, after string) service {
	if after != "" {
		after = ", after: " + after
	}
	s.plant.Stage = &plant.Stage{Capacity: buffer, SleepMillis: each}
	s.resources = append(s.resources, fmt.Sprintf(stageResource, name, after))
	return s
}

// hosts are the addresses of a service's instances, as Compose variables.
func hosts(name string) string { return fmt.Sprintf("${%s_HOSTS:-%s}", strings.ToUpper(name), name) }

// compose is the Compose file.
func (p project) compose(of Planted) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Planted: %s.\nname: selftest-%s\nservices:\n", of.What, of.Name)
	for _, s := range p.services {
		if err := s.write(&b); err != nil {
			return nil, fmt.Errorf("service %s: %w", s.name, err)
		}
	}
	return []byte(b.String()), nil
}

func (s service) write(b *strings.Builder) error {
	c := s.plant
	c.Listen = fmt.Sprintf("${BIND_HOST:-0.0.0.0}:%d", port)
	c.Admin = fmt.Sprintf("${BIND_HOST:-0.0.0.0}:%d", adminPort)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, `  %s:
    image: loadstone
    command: [internal, plant, '%s']
    expose: ["%d"]
    labels: {prometheus.io/port: "%d"}
    stop_grace_period: 2s
`, s.name, text, port, adminPort)
	fmt.Fprintf(b, "    deploy: {replicas: %d%s}\n", s.replicas, s.limits())
	if names := s.dependsOn(); len(names) > 0 {
		fmt.Fprintf(b, "    depends_on: [%s]\n", strings.Join(names, ", "))
	}
	fmt.Fprintf(b, "    x-requests: plant_requests_total\n")
	if len(s.resources) > 0 {
		fmt.Fprintf(b, "    x-resources:\n      %s\n", strings.Join(s.resources, "\n      "))
	}
	return nil
}

func (s service) limits() string {
	var limits []string
	if s.cpus > 0 {
		limits = append(limits, fmt.Sprintf("cpus: %q", fmt.Sprint(s.cpus)))
	}
	if s.memory != "" {
		limits = append(limits, "memory: "+s.memory)
	}
	if len(limits) == 0 {
		return ""
	}
	return ", resources: {limits: {" + strings.Join(limits, ", ") + "}}"
}

// dependsOn are the services that s calls.
func (s service) dependsOn() []string {
	var names []string
	for _, c := range s.plant.Calls {
		_, rest, inside := strings.Cut(c.Hosts, ":-")
		if !inside {
			continue
		}
		names = append(names, strings.TrimSuffix(rest, "}"))
	}
	return names
}

// What every planted system is measured with: a search that is short, because
// there are many of them, three times, so that one trial in which the machine was
// disturbed is outvoted; and an objective that a component meets until its CPU
// share is nearly used up. Perturbing is as short as gives intervals where slots are two
// seconds long, and ends earlier where they are not.
const (
	budget     = "6s"
	perturbing = "40s"
	trials     = 3
	objective  = 250 // ms, of the 95th percentile
)

// request is what an iteration does.
func (p project) request() string {
	switch {
	case p.users > 0:
		return "      steps:\n        - name: look\n          request: GET /?key={key}\n          think: 1s\n"
	case p.checks == 0:
		return "      request: GET /?key={key}\n"
	}
	// Longer than what a search looks for with vector instructions, and alike
	// the answer but for its end: about a nanosecond for each byte of it.
	const length = 100
	var b strings.Builder
	b.WriteString("      steps:\n        - name: load\n          request: GET /?key={key}\n          checks:\n")
	for i := range p.checks {
		fmt.Fprintf(&b, "            absent %d: {contains: %s%d}\n", i+1, strings.Repeat("x", length), i+1)
	}
	return b.String()
}

// executor is how the load is offered.
func (p project) executor() string {
	if p.users > 0 {
		return fmt.Sprintf("constant-vus\n      vus: %d\n      duration: %s", p.users, budget)
	}
	return "constant-arrival-rate"
}

// trials is how often each variant is measured.
func (p project) trials() int {
	if p.apart > 0 {
		return pairTrials
	}
	return trials
}

// experiment is the experiment file.
func (p project) experiment(of Planted, seed uint64) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `name: selftest-%s
question: "Planted: %s. Is it found?"
system: compose.yaml
entry: %s
variants: %s
load:
`, of.Name, of.What, p.services[0].name, p.variants())
	if p.checks > 0 {
		b.WriteString("  threads: 1\n")
	}
	fmt.Fprintf(&b, `  scenarios:
    load:
      executor: %s
%s      feed: {key: {%s}}
`, p.executor(), p.request(), p.feed)
	if p.rate > 0 {
		fmt.Fprintf(&b, "      rate: %.0f/s\n", p.rate)
	}
	fmt.Fprintf(&b, `slo:
  http_req_duration: [p(95)<%g]
  http_req_failed: [rate<0.01]
trials: %d
seed: %d
`, cmp.Or(p.objective, objective), p.trials(), seed)
	if p.users > 0 {
		b.WriteString("measure: load\n")
		return []byte(b.String())
	}
	if p.apart > 0 {
		b.WriteString("measure: capacity\nperturb: false\n")
		return []byte(b.String())
	}
	fmt.Fprintf(&b, "measure: capacity\nperturb: {budget: %s}\nsearch: {budget: %s", perturbing, budget)
	if p.maxRate > 0 {
		fmt.Fprintf(&b, ", maxRate: %.0f/s", p.maxRate)
	}
	b.WriteString("}\n")
	return []byte(b.String())
}
