// Package attach measures a system that runs already. It starts nothing and stops
// nothing: the instances are where x-addresses of the services say. Their machines are
// watched by agents (package agent), one on each machine.
//
// What a trial means is weaker than elsewhere: nothing is fresh, what the trials before it
// left behind is still there, and so every trial has a warning. A variant cannot change
// the system.
package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/host/agent"
	"loadstone/lab/topology"
)

// Driver attaches to systems.
type Driver struct {
	// Agent is the command of an agent on this machine.
	Agent []string
	// RemoteShell is the command before the name of another machine and of what to run
	// on it.
	RemoteShell []string
	// MayLimit names the services whose CPU limits may be changed.
	MayLimit []string
}

// DefaultRemoteShell asks for no password: nobody would answer. It gives up a machine that
// cannot be reached after 15 s, and one that is gone after 30: TCP alone would wait for hours.
func DefaultRemoteShell() []string {
	return []string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"}
}

// connectWithin bounds one attempt to connect to an instance, which runs already.
const connectWithin = 5 * time.Second

// Name is attach.
func (d Driver) Name() string { return "attach" }

// Machine is the one that the load comes from.
func (d Driver) Machine(context.Context) (host.Machine, []string) {
	m, _ := host.This()
	return m, nil
}

// Check refuses what would have to be started or changed.
func (d Driver) Check(_ context.Context, s *topology.System) error {
	if s.Overlaid() {
		return errors.New("attach changes nothing of a system that runs already; leave the variant empty ({}), and run the experiment once for each state that you bring the system to")
	}
	var errs []error
	if linked := s.Linked(); len(linked) > 0 {
		errs = append(errs, s.Mistake(fmt.Errorf("service %s has an x-link; attach changes nothing of a system that runs already; remove it", linked[0]), "services", linked[0], "x-link"))
	}
	for i := range s.Services {
		service := &s.Services[i]
		if slices.Contains(d.MayLimit, service.Name) && len(service.Addresses) == 0 {
			errs = append(errs, s.Mistake(fmt.Errorf("service %s: its CPU may be limited, but it has no x-addresses; write x-addresses: [\"127.0.0.1:8080\"]", service.Name), "services", service.Name))
		}
	}
	for _, name := range d.MayLimit {
		if _, ok := s.Service(name); !ok && len(s.Services) > 0 {
			errs = append(errs, fmt.Errorf("--may-limit %s: there is no such service", name))
		}
	}
	return errors.Join(errs...)
}

// CheckFault refuses every fault.
func (Driver) CheckFault(context.Context, *topology.System, driver.Fault) error {
	return errors.New("attach neither stops nor starts what runs already; remove the fault, or use another driver")
}

// Running is a system that runs already.
type Running struct {
	instances []topology.Instance
	hosts     []host.Host
	warnings  []string
	failed    chan error
	down      sync.Once
	downErr   error
}

// Up connects to every instance and has the agents find them.
func (d Driver) Up(ctx context.Context, c driver.Config) (driver.Running, error) {
	if err := d.Check(ctx, c.System); err != nil {
		return nil, err
	}
	r := &Running{failed: make(chan error)}
	r.warnings = append(r.warnings, "the system ran already and was not started for this trial: nothing of it is fresh, and what trials before this one left behind is still there")
	if err := os.MkdirAll(c.LogDir, 0o755); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	log, err := os.Create(filepath.Join(c.LogDir, "agent.log"))
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	err = errors.Join(d.attach(ctx, r, c, log), log.Close()) // agents have it open themselves
	if err != nil {
		return nil, errors.Join(err, r.Down(ctx))
	}
	return r, nil
}

// wanted are the instances on one machine.
type wanted struct {
	node string
	all  []agent.Wanted
	at   []int // of the same in Running.instances
}

func (d Driver) attach(ctx context.Context, r *Running, c driver.Config, log io.Writer) error {
	var nodes []*wanted
	for i := range c.System.Services {
		service := &c.System.Services[i]
		if len(service.Addresses) == 0 {
			r.warnings = append(r.warnings, fmt.Sprintf("service %s has no x-addresses and is not seen", service.Name))
			continue
		}
		if c.Progress.Starting != nil {
			c.Progress.Starting(service.Name)
		}
		for n, a := range service.Addresses {
			in := describe(service, n, a)
			if err := connect(ctx, in.Name, a); err != nil {
				return err
			}
			k := slices.IndexFunc(nodes, func(w *wanted) bool { return w.node == a.Node })
			if k < 0 {
				k, nodes = len(nodes), append(nodes, &wanted{node: a.Node})
			}
			nodes[k].at = append(nodes[k].at, len(r.instances))
			nodes[k].all = append(nodes[k].all, agent.Wanted{Name: in.Name, Address: a.At.String(), MayLimit: slices.Contains(d.MayLimit, service.Name)})
			r.instances = append(r.instances, in)
		}
		if c.Progress.Ready != nil {
			c.Progress.Ready(service.Name)
		}
	}
	// A sample is of one machine.
	slices.SortStableFunc(nodes, func(a, b *wanted) int { return len(b.all) - len(a.all) })
	for i, w := range nodes {
		if i == 0 {
			if err := d.watch(ctx, r, w, log); err != nil {
				return err
			}
			continue
		}
		for _, at := range w.at {
			r.take(at, agent.Found{Unseen: "so far the processes of one machine only are watched, that of most instances"})
		}
	}
	return nil
}

func describe(service *topology.Service, n int, a topology.Address) topology.Instance {
	in := topology.Instance{
		Service: service.Name, Index: n + 1, Name: fmt.Sprintf("%s-%d", service.Name, n+1),
		Host: a.At.Addr().String(), Port: int(a.At.Port()), Resources: service.Resources,
		StartedAt: time.Now(), ReadyAt: time.Now(),
	}
	if service.Limits.CPUs != nil {
		in.LimitCPUs = *service.Limits.CPUs
	}
	in.MetricsURL = service.MetricsURL(in.Host)
	return in
}

func connect(ctx context.Context, name string, a topology.Address) error {
	dialer := net.Dialer{Timeout: connectWithin}
	conn, err := dialer.DialContext(ctx, "tcp", a.At.String())
	if err != nil {
		return fmt.Errorf("%s accepts no connection on %s; start the system, or correct x-addresses: %w", name, a.At, err)
	}
	return conn.Close()
}

// watch starts the agent on a machine and takes over what it finds.
func (d Driver) watch(ctx context.Context, r *Running, w *wanted, log io.Writer) error {
	argv, name := d.Agent, "this machine"
	if w.node != "" {
		argv, name = slices.Concat(d.RemoteShell, []string{w.node, "loadstone", "internal", "agent"}), w.node
	}
	remote, err := agent.Start(ctx, name, argv, log)
	if err != nil {
		return err
	}
	r.hosts = append(r.hosts, remote)
	found, err := remote.Find(ctx, w.all)
	if err != nil {
		return err
	}
	for i, f := range found {
		r.take(w.at[i], f)
	}
	if ahead, uncertain := remote.Clock(); w.node != "" {
		r.warnings = append(r.warnings, fmt.Sprintf("the clock of %s is ahead by %v (±%v), which is taken off its times", name, ahead.Round(time.Microsecond), uncertain.Round(time.Microsecond)))
	}
	return nil
}

// take has an instance be what was found of it.
func (r *Running) take(i int, f agent.Found) {
	in := &r.instances[i]
	in.PID = f.PID
	switch {
	case f.Unseen != "":
		r.warnings = append(r.warnings, fmt.Sprintf("%s is not seen but for its metrics: %s", in.Name, f.Unseen))
		in.Unseen, in.LimitCPUs = true, 0
		return
	case f.Note != "":
		r.warnings = append(r.warnings, in.Name+": "+f.Note)
	case in.LimitCPUs > 0 && f.CPUs != in.LimitCPUs:
		r.warnings = append(r.warnings, fmt.Sprintf("%s has a CPU limit of %v and not %v, as the Compose file says", in.Name, f.CPUs, in.LimitCPUs))
	}
	if f.Version > 0 {
		in.LimitCPUs, in.Enforced = cmp.Or(f.CPUs, in.LimitCPUs), f.CPUs > 0
	}
}

// Instances are those of the addresses.
func (r *Running) Instances() []topology.Instance { return slices.Clone(r.instances) }

// Hosts are the machines.
func (r *Running) Hosts() []host.Host { return slices.Clone(r.hosts) }

// Failed gets nothing: an instance that ends is an error of whoever watches it.
func (r *Running) Failed() <-chan error { return r.failed }

// Warnings say what is not seen.
func (r *Running) Warnings() []string { return slices.Clone(r.warnings) }

// Down ends the agents, which restore limits. The system goes on.
func (r *Running) Down(context.Context) error {
	r.down.Do(func() {
		var errs []error
		for _, h := range r.hosts {
			errs = append(errs, h.Close())
		}
		r.downErr = errors.Join(errs...)
		close(r.failed)
	})
	return r.downErr
}
