package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"loadstone/internal/project"
	"loadstone/lab/driver/publish"
	"loadstone/lab/topology"
)

// ports are the published ports of a system that runs as local processes.
// Docker opens those of containers itself.
type ports struct {
	all  []openPort
	wait sync.WaitGroup
	stop context.CancelFunc // nil before run

	// failed gets the error of each port that ends before its time.
	failed chan error
}

type openPort struct {
	service string
	port    int // of the service
	*publish.Port
	// lent says that the port is the service's, which may listen there itself; after
	// takeBack, that it does. Nothing is forwarded then.
	lent bool
}

// openPorts takes all ports before anything starts, so that one that is taken is
// known at once.
func openPorts(ctx context.Context, t *upTarget, all bool) (*ports, error) {
	p := &ports{}
	for i := range t.system.Services {
		s := &t.system.Services[i]
		for _, published := range s.Published {
			if err := p.open(ctx, s.Name, published, all); err != nil {
				err = fmt.Errorf("service %s: %w", s.Name, t.explainTaken(err))
				return nil, errors.Join(err, p.close())
			}
		}
	}
	return p, nil
}

func (p *ports) open(ctx context.Context, service string, published topology.Published, all bool) error {
	hosts, err := publish.Hosts(published.HostIP, all)
	if err != nil {
		return err
	}
	number := uint16(published.HostPort) // topology has checked its range
	for _, host := range hosts {
		port, err := publish.Open(ctx, netip.AddrPortFrom(host, number))
		if err != nil {
			return err
		}
		number = port.Address().Port() // the same at all addresses if any will do
		p.all = append(p.all, openPort{service: service, port: published.Port, Port: port})
	}
	return nil
}

// lend gives those ports back, until takeBack, at which a program may listen itself: it is
// not told where to, so it may at every address, and could not if one of them was taken.
func (p *ports) lend(s *topology.System) error {
	var errs []error
	for i := range p.all {
		o := &p.all[i]
		if slices.Contains(s.Unbound, o.service) && o.port == int(o.Address().Port()) {
			o.lent = true
			errs = append(errs, o.Close())
		}
	}
	return errors.Join(errs...)
}

// takeBack takes the ports again that were lent, but for those at which an instance listens.
func (p *ports) takeBack(ctx context.Context, t *upTarget, instances []topology.Instance) error {
	for i := range p.all {
		o := &p.all[i]
		if !o.lent {
			continue
		}
		port, err := publish.Open(ctx, o.Address())
		taken, ok := errors.AsType[*publish.TakenError](err)
		switch {
		case err == nil:
			o.lent, o.Port = false, port
		case ok && taken.Holder != nil && slices.ContainsFunc(instances, func(in topology.Instance) bool {
			return in.Service == o.service && taken.Holder.DescendsFrom(in.PID)
		}):
			// It stays lent.
		default:
			return fmt.Errorf("service %s: %w", o.service, t.explainTaken(err))
		}
	}
	return nil
}

// explainTaken says which system holds a port, if it is one of ours.
func (t *upTarget) explainTaken(err error) error {
	taken, ok := errors.AsType[*publish.TakenError](err)
	if !ok || taken.Holder == nil {
		return err
	}
	alive, errAlive := t.store.Alive()
	if errAlive != nil {
		return err
	}
	for i := range alive {
		if alive[i].Owner.PID == taken.Holder.PID {
			return fmt.Errorf("port %d of %s is used by the system %s; stop it with `%s`, or publish another port",
				taken.Address.Port(), taken.Address.Addr(), alive[i].Name, downCommandFor(alive[i].Name, t.dir))
		}
	}
	return err
}

// run forwards until close, which comes after the end of ctx: requests under way
// end while the system stops. What is published of a service that was left out is
// given back.
func (p *ports) run(ctx context.Context, instances []topology.Instance) error {
	targets := map[string][]string{}
	for _, in := range instances {
		targets[in.Service] = append(targets[in.Service], in.Host)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	var errs []error
	p.all = slices.DeleteFunc(p.all, func(o openPort) bool {
		if len(targets[o.service]) > 0 {
			return false
		}
		errs = append(errs, o.Close())
		return true
	})
	p.failed = make(chan error, len(p.all))
	for _, o := range p.all {
		if o.lent {
			continue
		}
		var to []string
		for _, host := range targets[o.service] {
			to = append(to, net.JoinHostPort(host, strconv.Itoa(o.port)))
		}
		o.Forward(to)
		p.wait.Go(func() {
			if err := o.Run(ctx); err != nil {
				p.failed <- err // has room for all
			}
		})
	}
	return errors.Join(errs...)
}

// close gives all ports back and returns what went wrong with any, unless failed
// has given it to somebody.
func (p *ports) close() error {
	if p.stop == nil {
		var errs []error
		for _, o := range p.all {
			if !o.lent {
				errs = append(errs, o.Close())
			}
		}
		return errors.Join(errs...)
	}
	p.stop()
	p.wait.Wait()
	close(p.failed)
	var errs []error
	for err := range p.failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *ports) records() []project.Port {
	var all []project.Port
	for _, o := range p.all {
		all = append(all, project.Port{Service: o.service, Address: o.Address().String(), Port: o.port})
	}
	return all
}

// declaredPorts are those that Docker opens.
func declaredPorts(s *topology.System, publishAll bool) []project.Port {
	var all []project.Port
	for i := range s.Services {
		for _, published := range s.Services[i].Published {
			if published.HostPort == 0 {
				continue // Docker chooses, and `docker port` says what
			}
			host := published.HostIP
			if host == "" {
				host = "127.0.0.1"
				if publishAll {
					host = "0.0.0.0"
				}
			}
			all = append(all, project.Port{
				Service: s.Services[i].Name, Address: net.JoinHostPort(host, strconv.Itoa(published.HostPort)), Port: published.Port,
			})
		}
	}
	return all
}
