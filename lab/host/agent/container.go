package agent

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// isID is what all runtimes of Kubernetes call containers.
var isID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// believe says why what is asked for is not what the lab has named, where an agent finds containers.
func (c Config) believe(wanted []Wanted) error {
	if c.Containers == "" {
		return nil
	}
	for _, w := range wanted {
		if !isID.MatchString(w.Container) {
			return fmt.Errorf("%.80q is no id of a container", w.Container)
		}
		if !ed25519.Verify(c.Lab, w.text(), w.Seal) {
			return fmt.Errorf("container %.12s is not one that the lab of this agent has named", w.Container)
		}
	}
	return nil
}

// findContainers finds the control groups of containers.
func (c Config) findContainers(wanted []Wanted) ([]host.Target, []Found, error) {
	ids := make([]string, 0, len(wanted))
	for _, w := range wanted {
		ids = append(ids, w.Container)
	}
	groups, err := cgroup.Containers(c.Containers, ids)
	if err != nil {
		return nil, nil, err
	}
	targets, found := make([]host.Target, len(wanted)), make([]Found, len(wanted))
	for i, w := range wanted {
		p, ok := groups[w.Container]
		if !ok {
			found[i].Unseen = fmt.Sprintf("its container %.12s has no control group below %s, or several have its name", w.Container, c.Containers)
			continue
		}
		pids, err := found[i].describe(p)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV), err == nil && len(pids) == 0:
			found[i].Unseen = fmt.Sprintf("no process of its container %.12s can be seen", w.Container)
		case err != nil: // the others are seen
			found[i].Unseen = err.Error()
		default:
			found[i].PID = slices.Min(pids)
			targets[i] = host.Target{Name: w.Name, PID: found[i].PID, Cgroup: p}
		}
	}
	return targets, found, nil
}

// Share is the share of the CPU that the kernel holds a target to, in cores; 0 for no limit.
func (c *calls) Share(target string, to *float64) error {
	t, ok := c.a.target(target)
	if !ok {
		return host.ErrUnsupported
	}
	var f Found
	_, err := f.describe(t.Cgroup)
	*to = f.CPUs
	return err
}

// Signal is to be sent to a target.
type Signal struct {
	Target string
	Signal int
}

// Signal sends to all processes of a container.
func (c *calls) Signal(s Signal, to *cgroup.Signalled) error {
	t, ok := c.a.target(s.Target)
	if !ok || c.a.config.Containers == "" {
		return host.ErrUnsupported
	}
	group, err := cgroup.Open(t.Cgroup)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil // they have ended
	}
	if err != nil {
		return err
	}
	*to, err = group.Signal(unix.Signal(s.Signal))
	return errors.Join(err, group.Close())
}

func (a *agent) target(name string) (host.Target, bool) {
	all := a.all()
	i := slices.IndexFunc(all, func(t host.Target) bool { return t.Name == name })
	if i < 0 {
		return host.Target{}, false
	}
	return all[i], true
}
