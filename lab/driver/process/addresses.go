package process

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"loadstone/lab/driver/process/network"
	"loadstone/lab/topology"
)

// networks says why this machine cannot give instances networks of their own. It tries
// once.
var networks = sync.OnceValue(network.Available)

// ownNetworks says whether the instances of a system get networks of their own. It is
// an error if they must have them and cannot.
func ownNetworks(s *topology.System) (bool, error) {
	linked := s.Linked()
	switch {
	case len(linked) > 0 && s.Network == topology.Loopback:
		return false, s.Mistake(fmt.Errorf("service %s has an x-link, which takes a network of its own; remove x-network: %s, or the x-link", linked[0], s.Network), "x-network")
	case len(linked) > 0:
		if err := networks(); err != nil {
			return false, s.Mistake(fmt.Errorf("service %s has an x-link, which takes a network of its own: %w; remove the x-link", linked[0], err), "services", linked[0], "x-link")
		}
		return true, nil
	case s.Network == topology.OwnNetwork:
		if err := networks(); err != nil {
			return false, s.Mistake(fmt.Errorf("x-network: %s: %w; let the services listen on ${BIND_HOST:-0.0.0.0}, and leave x-network out", s.Network, err), "x-network")
		}
		return true, nil
	case s.Network == topology.Loopback || len(s.Unaddressed) == 0:
		return false, nil
	default:
		return networks() == nil, nil
	}
}

// openNetwork makes the network of the run, if its instances get their own.
func (r *Running) openNetwork() error {
	own, err := ownNetworks(r.config.System)
	switch {
	case err != nil:
		return err
	case own:
		r.network, err = network.Open(r.claim.network)
		return err
	}
	for _, w := range r.config.System.BareNames {
		r.Warnf("%s", w)
	}
	return nil
}

// address is that of the i-th instance of the run, from 0.
func (r *Running) address(i int) string {
	if r.network != nil {
		return r.network.Address(i).String()
	}
	return r.claim.address(i)
}

// called is the service that has a name, as its own or as an alias; empty for none. Case
// does not matter to names of hosts.
func (r *Running) called(name string) string {
	services := r.config.System.Services
	i := slices.IndexFunc(services, func(s topology.Service) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		i = slices.IndexFunc(services, func(s topology.Service) bool {
			return slices.ContainsFunc(s.Aliases, func(alias string) bool { return strings.EqualFold(alias, name) })
		})
	}
	if i < 0 {
		return ""
	}
	return services[i].Name
}

// lookup are the addresses of a service: those of its instances that run or, if none
// does, of all.
func (r *Running) lookup(name string) []netip.Addr {
	var all, alive []netip.Addr
	service := r.called(name)
	for i, in := range r.instances {
		if in.service != service {
			continue
		}
		all = append(all, r.network.Address(i))
		if l := in.Life(); l != nil && !l.Asked() && !l.HasEnded() {
			alive = append(alive, r.network.Address(i))
		}
	}
	if len(alive) > 0 {
		return alive
	}
	return all
}

// enterNetwork makes the instance's network, if it gets its own.
func (in *instance) enterNetwork() error {
	r := in.run
	if r.network == nil {
		return nil
	}
	dir := filepath.Join(r.dir, "network-"+in.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make its network's files: %w", err)
	}
	files, err := r.network.Files(dir, in.hostsFile())
	if err != nil {
		return err
	}
	i := slices.Index(r.instances, in)
	if in.space, err = r.network.Space(i, files); err != nil {
		return err
	}
	if l := in.Service.Link; l != (topology.Link{}) {
		const bitsInByte = 8
		return r.network.Shape(in.space, i, network.Shape{Delay: l.Delay, Loss: l.Loss, Bandwidth: l.Bandwidth / bitsInByte})
	}
	return nil
}

// hostsFile are the addresses of all names but those of services with several
// instances, which the name server has, and with this machine's for the instance itself.
func (in *instance) hostsFile() map[string]netip.Addr {
	r := in.run
	hosts := map[string]netip.Addr{}
	for i, other := range r.instances {
		address := r.network.Address(i)
		hosts[other.Name] = address
		if len(r.hosts[other.service]) == 1 {
			hosts[other.service] = address
			for _, alias := range r.aliases(other.service) {
				hosts[alias] = address
			}
		}
		if name, err := os.Hostname(); err == nil && other == in {
			hosts[name] = address
		}
	}
	return hosts
}

// aliases are those of a service that are no name of another one.
func (r *Running) aliases(service string) []string {
	s, _ := r.config.System.Service(service)
	return slices.DeleteFunc(slices.Clone(s.Aliases), func(alias string) bool { return r.called(alias) != service })
}

// start starts a command where the instance is.
func (in *instance) start(cmd *exec.Cmd) error {
	if in.space != nil {
		return in.space.Start(cmd)
	}
	return in.run.starter.Do(cmd.Start)
}
