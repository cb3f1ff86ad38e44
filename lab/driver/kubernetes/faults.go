package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// CheckFault says what keeps a fault from being carried out, before the system is up.
//
// A process is paused by a signal, which the API of Kubernetes cannot send. So it has to be on
// this machine, wherever the scheduler puts it, or agents are asked for. Whether these are to be had shows when
// the system is up, and is not relied on otherwise.
func (d Driver) CheckFault(ctx context.Context, s *topology.System, f driver.Fault) error {
	if err := d.Settings.CheckFault(ctx, s, f); err != nil {
		return err
	}
	if f.Renewed {
		project, err := s.Project(ctx)
		if err != nil {
			return err
		}
		if project.Services[f.Service].NetworkMode != "host" { // in which it has the address of its node
			return fmt.Errorf("what is started again has another address in Kubernetes, which the load does not reach, and no other instance of %s is left; give it one that no fault ends, make a service in front of it the entry, or remove for", f.Service)
		}
	}
	if _, asked := d.agentImage(); asked || f.Action != "pause" {
		return nil
	}
	node, err := d.elsewhere(ctx)
	if err != nil {
		return fmt.Errorf("whether %s can be paused depends on where the nodes are: %w", f.Service, err)
	}
	const instead = "write stop in place of pause, or name the image of an agent that does it in " + AgentVariable
	if node != "" {
		return fmt.Errorf("instances of %s may be on node %s, which is another machine than this one, and only what is on this one can be paused; %s", f.Service, node, instead)
	}
	if !mayKill(d.ProcRoot) {
		return fmt.Errorf("this user may not pause what belongs to others; run as root, or %s", instead)
	}
	return nil
}

// elsewhere is a node that pods may be on and that is another machine than this one; empty if
// there is none.
func (d Driver) elsewhere(ctx context.Context) (node string, err error) {
	c, err := d.connect()
	if err != nil {
		return "", err
	}
	nodes, err := c.nodes(ctx)
	for i := range nodes {
		if n := &nodes[i]; takesPods(n) && n.Status.NodeInfo.BootID != host.Boot(d.ProcRoot) {
			return n.Name, nil
		}
	}
	return "", err
}

// checkScaled says of services that are scaled by their CPU where that could not be seen, before
// the system is up: with agents it can be.
func (d Driver) checkScaled(ctx context.Context, s *topology.System) error {
	i := slices.IndexFunc(s.Services, func(x topology.Service) bool { return x.Autoscale != nil })
	if image, _ := d.agentImage(); image != "" || i < 0 {
		return nil
	}
	name := s.Services[i].Name
	node, err := d.elsewhere(ctx)
	if err != nil {
		return fmt.Errorf("whether %s can be scaled depends on where the nodes are: %w", name, err)
	}
	if node == "" {
		return nil
	}
	return s.Mistake(fmt.Errorf("service %s: its instances may be on node %s, which is another machine than this one, and without agents only what is on this one is scaled by its CPU; remove %s=%s, or write deploy.replicas in place of x-autoscale", name, node, AgentVariable, noAgents), "services", name, "x-autoscale")
}

// mayKill says whether this program may send signals to whatever processes it sees.
func mayKill(procRoot string) bool {
	text, err := os.ReadFile(filepath.Join(procRoot, "self", "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits&(1<<unix.CAP_KILL) != 0
		}
	}
	return false
}
