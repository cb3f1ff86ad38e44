package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// groupPrefix begins the name of every run's control group. The whole name is
// loadstone-PID-START-SPACE-NETWORK with the lab's pid and start time, so that a
// later lab can tell whether its owner still lives, and the pid name space that these are
// of: labs of several may share control groups, and take each other for dead.
const groupPrefix = topology.Self + "-"

func runName(procRoot string, network int) (string, error) {
	self, err := guardian.Identify(procRoot, os.Getpid())
	if err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	return fmt.Sprintf("%s%d-%d-%d-%d", groupPrefix, self.PID, self.Start, pidSpace(procRoot), network), nil
}

// pidSpace is the number of this process's pid name space; 0 if it is not known.
func pidSpace(procRoot string) (number uint64) {
	link, err := os.Readlink(filepath.Join(procRoot, "self", "ns", "pid"))
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(link, "pid:[%d]", &number); err != nil {
		return 0
	}
	return number
}

// owner is the lab of this pid name space that a run's control group belongs to.
func owner(procRoot, name string) (guardian.Process, bool) {
	var p guardian.Process
	var network int
	var space uint64
	rest, ok := strings.CutPrefix(name, groupPrefix)
	if !ok {
		return p, false
	}
	n, err := fmt.Sscanf(rest, "%d-%d-%d-%d", &p.PID, &p.Start, &space, &network)
	return p, err == nil && n == 4 && space == pidSpace(procRoot) && name == fmt.Sprintf("%s%d-%d-%d-%d", groupPrefix, p.PID, p.Start, space, network)
}

// prepareGroups finds out where groups can be made, removes those of labs that
// are gone, tells the guardian of the run's own and makes it. Where none can be
// made, the run goes on without and says so.
func (r *Running) prepareGroups(ctx context.Context) error {
	tree, err := cgroup.Detect(r.config.ProcRoot, r.config.SysRoot)
	if err == nil {
		r.tree = tree
		r.sweep(ctx)
		if err := r.guard.Cgroup(tree.Paths(r.name)); err != nil {
			return err
		}
		// Health checks have a group of their own: their CPU is the lab's
		// doing and must not be counted as the instance's, nor wait for its
		// share.
		r.checks, err = tree.Create(r.name+"/checks", cgroup.Limits{})
	}
	if un, ok := errors.AsType[*cgroup.UnavailableError](err); ok {
		r.tree = nil
		r.Warnf("CPU and memory limits are not enforced and not accounted for: %v", un)
		return nil
	}
	return err
}

// sweep removes the groups of labs that no longer run. It is the last of the
// nets, so what it cannot remove is worth a warning, not an error.
func (r *Running) sweep(ctx context.Context) {
	names, err := r.tree.Names()
	if err != nil {
		r.Warnf("could not look for what earlier runs left: %v", err)
		return
	}
	for _, name := range names {
		if p, ok := owner(r.config.ProcRoot, name); ok && !p.Alive(r.config.ProcRoot) {
			if err := cgroup.Destroy(ctx, r.tree.Paths(name)); err != nil {
				r.Warnf("could not remove what an earlier run left: %v", err)
			}
		}
	}
}

// makeGroup makes the instance's group with its memory limit and, for a job, its
// share of the CPU; see limitCPU. An instance without limits has one too, for its
// figures and for its end.
func (r *Running) makeGroup(in *instance) error {
	if r.tree == nil {
		return nil
	}
	limits := cgroup.Limits{Memory: in.Service.Limits.Memory}
	if in.Service.Job && in.Service.Limits.CPUs != nil {
		limits.CPU = cgroup.Cores(*in.Service.Limits.CPUs)
	}
	group, err := r.tree.Create(r.name+"/"+in.Name, limits)
	if err != nil {
		return fmt.Errorf("limit it: %w", err)
	}
	in.group = group
	return nil
}

// limitCPU is LimitCPU of driver.Instance.
func (in *instance) limitCPU(context.Context) error {
	if in.group == nil {
		return nil
	}
	return in.group.SetCPU(*cgroup.Cores(*in.Service.Limits.CPUs))
}
