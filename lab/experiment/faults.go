package experiment

import (
	"fmt"
	"slices"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/fault"
)

const (
	// leastAt has some load before a fault: what came after it is compared with
	// that.
	leastAt     = 2 * time.Second
	execTimeout = 30 * time.Second
	maxFaults   = 100
)

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

// faults reads the list of faults, on what l offers.
func (f field) faults(l *Offer) []Fault {
	switch {
	case !f.given():
		return nil
	case f.n.kind != list:
		f.wrong("a list")
		return nil
	case len(f.n.items) > maxFaults:
		f.errorf(f.n.items[maxFaults], "these are more than %d faults; write fewer, or several experiments", maxFaults)
		return nil
	}
	before := len(f.errs)
	var out []Fault
	for i, item := range f.n.items {
		out = append(out, f.fault(item, i+1))
	}
	if len(f.errs) == before {
		f.inTime(out, l)
	}
	return out
}

func (f field) fault(n *node, number int) Fault {
	to := Fault{Timeout: execTimeout}
	s := f.section(n, n, fmt.Sprintf("fault %d", number), "{at: 60s, kill: api, instance: 1, for: 10s}")
	if s == nil {
		return to
	}
	s.hints = map[string]hint{
		"restart_after": {"write for", "for"}, "duration": {"write for", "for"}, "index": {"write instance", "instance"},
		"command": {"write exec", "exec"}, "run": {"write exec", "exec"}, "restart": {"write stop, with for", "stop"},
	}
	to.At = s.need("at", "at: 60s").duration(leastAt)
	var actions []field
	for _, a := range []struct {
		key, example string
		to           *string
	}{{fault.Kill, "kill: api", &to.Kill}, {fault.Stop, "stop: postgres", &to.Stop}, {fault.Pause, "pause: redis", &to.Pause}} {
		action := s.may(a.key, a.example)
		*a.to = action.text()
		actions = append(actions, action)
	}
	exec := s.may(fault.Exec, `exec: [redis-cli, -h, "${REDIS_HOST:-redis}", flushall]`)
	to.Exec = exec.argv()
	actions = append(actions, exec)
	service, timeout, ends := s.may("service", "service: redis"), s.may("timeout", "timeout: 30s"), s.may("for", "for: 10s")
	to.Service = service.text()
	if instance := s.may("instance", "instance: 1"); instance.given() {
		to.Instance = int(instance.whole(1, 1000))
	}
	to.For = ends.duration(time.Millisecond)
	if timeout.given() {
		to.Timeout = timeout.duration(time.Millisecond)
	}
	s.done()
	s.oneAction(n, actions, service, timeout, ends)
	return to
}

// oneAction checks that there is one thing to do, with the keys that belong to
// it.
func (s *section) oneAction(n *node, actions []field, service, timeout, ends field) {
	actions = slices.DeleteFunc(actions, func(a field) bool { return a.n == nil })
	switch {
	case len(actions) == 0:
		if !slices.ContainsFunc([]string{fault.Kill, fault.Stop, fault.Pause, fault.Exec}, func(key string) bool { return s.meant[key] }) {
			s.errorf(n, "%s does nothing; write one of kill: SERVICE, stop: SERVICE, pause: SERVICE and exec: [PROGRAM, ARGUMENT]", s.what)
		}
		return
	case len(actions) > 1:
		s.errorf(actions[1].place, "%s does %s already; write %s as a fault of its own", s.what, actions[0].key, actions[1].key)
		return
	}
	isExec := actions[0].key == fault.Exec
	for _, f := range []field{service, timeout} {
		if f.n != nil && !isExec {
			s.errorf(f.place, "%s is for exec; remove it", f.key)
		}
	}
	switch {
	case isExec && service.n == nil:
		s.errorf(actions[0].place, "exec needs the service in whose place it runs; write %s", service.example)
	case isExec && ends.n != nil:
		s.errorf(ends.place, "exec is over when its command has ended; remove for, or write timeout to bound it")
	}
}

// argv reads a command.
func (f field) argv() []string {
	if !f.given() {
		return nil
	}
	if f.n.kind != list || len(f.n.items) == 0 {
		f.wrong("a list of words")
		return nil
	}
	var out []string
	for i, item := range f.n.items {
		switch {
		case !f.plain(item):
		case item.kind == null || item.kind == list || item.kind == mapping:
			f.errorf(item, "word %d of exec must be text, not %s; write %s", i+1, describe(item), f.example)
		default:
			out = append(out, item.text)
		}
	}
	if len(out) > 0 && out[0] == "" {
		f.errorf(f.n.items[0], "exec has no program; write %s", f.example)
	}
	return out
}

// length is how long the load lasts; 0 if that is not known before.
func (l *Offer) length() time.Duration {
	var longest time.Duration
	for i := range l.Scenarios {
		d := l.Scenarios[i].length()
		if d == 0 {
			return 0
		}
		longest = max(longest, l.Scenarios[i].StartTime+d)
	}
	return longest
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
