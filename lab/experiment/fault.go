package experiment

import (
	"fmt"
	"slices"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/fault"
)

// Fault is one thing that is done to the system: exactly one of kill, stop,
// pause and exec.
type Fault struct {
	// When, from the beginning of the load, its warm-up included: 2s at least.
	At time.Duration `key:"at,need" eg:"60s" min:"2s"`

	// The service of which instances are killed (SIGKILL), and started again
	// after for.
	Kill string `key:"kill" eg:"api"`

	// The service of which instances are stopped by their stop signal, and
	// started again after for.
	Stop string `key:"stop" eg:"postgres"`

	// The service of which instances stand still for a time: they neither answer
	// nor refuse.
	Pause string `key:"pause" eg:"redis"`

	// A command that is run against service, as a list of its words. Variables
	// are filled in as in the Compose file, as in ${REDIS_HOST:-redis}.
	Exec []string `key:"exec" eg:"[redis-cli, -h, \"${REDIS_HOST:-redis}\", flushall]" each:"word %d of exec" least:"1" list:"a list of words" scalar:"text"`

	// The service in whose place exec runs: with its environment, user and
	// working directory.
	Service string `key:"service" eg:"redis"`

	// The number of the instance, from 1. If not given, kill, stop and pause are
	// done to all instances of the service at once, and exec to the first.
	Instance int `key:"instance" eg:"1" max:"1000" min:"1"`

	// After how long the instances come back. If not given, they stay away until
	// the load ends.
	For time.Duration `key:"for" eg:"10s" min:"1ms"`

	// How long exec may take. A command that fails or takes longer fails the
	// trial.
	Timeout time.Duration `key:"timeout" eg:"30s" default:"30s" min:"1ms"`
}

// leastAt has some load before a fault: what came after it is compared with
// that.
const leastAt = 2 * time.Second

// Action returns which of the four it is, and the service that it is done to.
func (f *Fault) Action() (action, service string) {
	switch {
	case f.Kill != "":
		return fault.Kill, f.Kill
	case f.Stop != "":
		return fault.Stop, f.Stop
	case f.Pause != "":
		return fault.Pause, f.Pause
	default:
		return fault.Exec, f.Service
	}
}

func (*Fault) prepare(s *section) {
	s.hints = map[string]hint{
		"restart_after": {"write for", "for"}, "duration": {"write for", "for"}, "index": {"write instance", "instance"},
		"command": {"write exec", "exec"}, "run": {"write exec", "exec"}, "restart": {"write stop, with for", "stop"},
	}
}

// check checks that there is one thing to do, with the keys that belong to it.
func (f *Fault) check(s *section) {
	actions := s.given(fault.Kill, fault.Stop, fault.Pause, fault.Exec)
	switch {
	case len(actions) == 0:
		if !slices.ContainsFunc([]string{fault.Kill, fault.Stop, fault.Pause, fault.Exec}, func(key string) bool { return s.meant[key] }) {
			s.errorf(s.n, "%s does nothing; write one of kill: SERVICE, stop: SERVICE, pause: SERVICE and exec: [PROGRAM, ARGUMENT]", s.what)
		}
		return
	case len(actions) > 1:
		s.errorf(actions[1].place, "%s does %s already; write %s as a fault of its own", s.what, actions[0].key, actions[1].key)
		return
	case actions[0].key == fault.Exec:
		f.checkExec(s, actions[0])
		return
	}
	for _, only := range s.given("service", "timeout") {
		s.errorf(only.place, "%s is for exec; remove it", only.key)
	}
}

func (f *Fault) checkExec(s *section, exec field) {
	if len(f.Exec) > 0 && f.Exec[0] == "" {
		s.errorf(exec.n.items[0], "exec has no program; write %s", exec.example)
	}
	if service := s.fields["service"]; service.n == nil {
		s.errorf(exec.place, "exec needs the service in whose place it runs; write %s", service.example)
	} else if ends := s.fields["for"]; ends.n != nil {
		s.errorf(ends.place, "exec is over when its command has ended; remove for, or write timeout to bound it")
	}
}

// inTime checks that faults come one after the other within the load.
func (f field) inTime(faults []Fault, l *Offer) {
	var free time.Duration // from when on nothing else is under way
	stays := false
	length := l.length()
	for i := range faults {
		x := &faults[i]
		item := f.n.items[i]
		at, _ := item.pair("at")
		ends, has := item.pair("for")
		switch {
		case stays:
			f.errorf(at.value, "fault %d lasts until the load ends, so none can follow; give it a for, or remove this one", i)
			return
		case x.At < free:
			f.errorf(at.value, "fault %d begins at %v, before the one above it is over at %v: what each of them cost could not be told; write at: %v or later, and leave time to recover", i+1, x.At, free, free)
			return
		case x.At < l.Warmup+leastAt:
			f.errorf(at.value, "fault %d begins at %v, with less than %v between it and the warm-up; write at: %v or later", i+1, x.At, leastAt, l.Warmup+leastAt)
		case length > 0 && x.At >= length:
			f.errorf(at.value, "fault %d begins at %v, and the load ends at %v; write an earlier time, or a longer load", i+1, x.At, length)
		case length > 0 && has && x.At+x.For >= length:
			f.errorf(ends.value, "fault %d is over at %v, and the load ends at %v: whether the system recovers would not be seen; write a shorter for, or a longer load", i+1, x.At+x.For, length)
		}
		free = x.At + x.For
		stays = !has && x.Exec == nil
	}
}

// CheckFaults checks the faults against the instances that each service of a
// variant has, jobs left out. The error is an [Errors].
func (e *Experiment) CheckFaults(variant string, instances map[string]int) error {
	d := &decoder{file: e.file}
	var known []string
	for name := range instances {
		known = append(known, name)
	}
	slices.Sort(known)
	faults, _ := e.root.pair("faults")
	for i := range e.Faults {
		x := &e.Faults[i]
		action, service := x.Action()
		key := action
		if action == fault.Exec {
			key = "service"
		}
		at, _ := faults.value.items[i].pair(key)
		n, ok := instances[service]
		switch {
		case !ok:
			d.errorf(at.value, "fault %d is about the service %s, which variant %s does not run; %s", i+1, spelling.Quote(service), spelling.Quote(variant), spelling.Choose(service, known))
		case n == 0:
			d.errorf(at.value, "fault %d is about the service %s, of which variant %s has no instance; give it one, or remove the fault", i+1, spelling.Quote(service), spelling.Quote(variant))
		case x.Instance > n:
			number, _ := faults.value.items[i].pair("instance")
			d.errorf(number.value, "fault %d is about instance %d of %s, of which variant %s has %d; write a lower number", i+1, x.Instance, spelling.Quote(service), spelling.Quote(variant), n)
		}
	}
	return d.errs.sorted()
}

// Plan returns the faults as they are carried out on the instances of a variant.
func (f *Fault) Plan(instances map[string]int) fault.Fault {
	action, service := f.Action()
	out := fault.Fault{At: f.At, Action: action, Command: f.Exec, Within: f.Timeout, Ends: f.For > 0, For: f.For}
	first, last := f.Instance, f.Instance
	if f.Instance == 0 {
		first, last = 1, instances[service]
		if action == fault.Exec {
			last = 1
		}
	}
	for i := first; i <= last; i++ {
		out.Targets = append(out.Targets, fmt.Sprintf("%s-%d", service, i))
	}
	return out
}

func (*Fault) rules(s *schema) {
	s.OneOf = exactlyOne(fault.Kill, fault.Stop, fault.Pause, fault.Exec)
	exec := without("for")
	exec.Required = []string{"service"}
	s.If, s.Then, s.Else = with(fault.Exec), exec, without("service", "timeout")
}
