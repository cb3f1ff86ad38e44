package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

// CheckFault says what keeps a fault from being carried out, before the system is up.
//
// A process is paused by a signal, which the API of Kubernetes cannot send, so it has to be on
// this machine, wherever the scheduler puts it.
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
	c, err := d.connect()
	if err != nil {
		return err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return fmt.Errorf("whether %s can be paused depends on where the nodes are: %w", f.Service, err)
	}
	const instead = "write stop in place of pause, or name the image of an agent that does it in " + AgentVariable
	for i := range nodes {
		if n := &nodes[i]; takesPods(n) && n.Status.NodeInfo.BootID != bootID(d.ProcRoot) {
			return fmt.Errorf("instances of %s may be on node %s, which is another machine than this one, and only what is on this one can be paused; %s", f.Service, n.Name, instead)
		}
	}
	if !mayKill(d.ProcRoot) {
		return fmt.Errorf("this user may not pause what belongs to others; run as root, or %s", instead)
	}
	return nil
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
