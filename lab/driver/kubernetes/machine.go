package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// resizeWithin bounds one resizing: a few tenths of a second, if the node has room.
const resizeWithin = 10 * time.Second

// machineOf describes this machine if a node is in it, or else all nodes as one machine.
// Nodes that share a machine count once.
func machineOf(nodes []corev1.Node, boot string) (host.Machine, []string) {
	m := host.Machine{LimitsEnforced: true}
	counted := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		id := n.Status.NodeInfo.BootID
		if id != "" && id == boot {
			this, warnings := host.This()
			this.LimitsEnforced = true // by the node, whatever this user may
			return this, warnings
		}
		if id != "" && counted[id] {
			continue
		}
		counted[id] = true
		m.Cores += int(n.Status.Capacity.Cpu().Value())
		m.MemoryBytes += uint64(max(n.Status.Capacity.Memory().Value(), 0))
		m.CPU, m.Kernel = n.Status.NodeInfo.Architecture, n.Status.NodeInfo.KernelVersion
	}
	if len(nodes) == 0 {
		return m, []string{"the cluster has no nodes"}
	}
	m.CPU = fmt.Sprintf("%d nodes of a Kubernetes cluster (%s)", len(counted), m.CPU)
	return m, nil
}

// machine is this machine with the pods on it, whose CPU limits are the cluster's to
// change.
type machine struct {
	*host.Local

	run     *Running
	resizes bool // whether the cluster resizes pods in place

	mu      sync.Mutex
	changed map[string]bool // instances whose share is not what the file says
}

func newMachine(r *Running, resizes bool) *machine {
	m := &machine{run: r, resizes: resizes, changed: map[string]bool{}}
	m.Local = host.NewLocal(func() []host.Target { return r.Targets() })
	return m
}

// Limit resizes the pod; one without a limit is slowed down as any process is.
func (m *machine) Limit(ctx context.Context, target string, factor float64) error {
	in := m.run.byName[target]
	if in == nil {
		return m.Local.Limit(ctx, target, factor)
	}
	if remote := in.byAgent(); in.Service.Limits.CPUs == nil && remote != nil {
		return remote.Limit(ctx, target, factor)
	}
	if in.Service.Limits.CPUs == nil {
		return m.Local.Limit(ctx, target, factor)
	}
	if !m.resizes || in.share() == nil {
		return fmt.Errorf("%s: %w", target, host.ErrUnsupported)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if factor == 1 && !m.changed[target] {
		return nil
	}
	m.changed[target] = true
	if err := in.resize(ctx, factor); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	m.changed[target] = factor != 1
	return nil
}

// Close restores all limits, of pods that are still there.
func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := []error{m.Local.Close()}
	for name, changed := range m.changed {
		in := m.run.byName[name]
		if pod, _ := in.seen(); changed && pod != nil && !over(pod) {
			errs = append(errs, in.resize(context.Background(), 1))
		}
		delete(m.changed, name)
	}
	return errors.Join(errs...)
}

// resize makes the pod's share of the CPU factor times that of the file, and returns when
// the kernel has it.
func (in *instance) resize(ctx context.Context, factor float64) error {
	scaled := resources(in.Service.Limits, factor)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": mainContainer, "resources": scaled}}}})
	if err != nil {
		return err
	}
	err = in.run.cluster.call(ctx, "resize it", func(ctx context.Context) error {
		_, err := in.run.cluster.CoreV1().Pods(in.run.name).Patch(ctx, in.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, resizeWithin, fmt.Errorf("its node did not change its CPU within %v", resizeWithin))
	defer cancel()
	want := scaled.Limits[corev1.ResourceCPU]
	if share := in.share(); share != nil {
		return in.awaitShare(ctx, share, float64(want.MilliValue())/1000)
	}
	return in.await(ctx, resizeWithin, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || over(pod) {
			return true, nil // its end is reported
		}
		for i := range pod.Status.ContainerStatuses {
			if r := pod.Status.ContainerStatuses[i].Resources; r != nil && r.Limits.Cpu().Cmp(want) == 0 {
				return true, nil
			}
		}
		return false, infeasible(pod)
	})
}

// share reads the share of the CPU that the kernel holds the instance to, in cores, 0 for no
// limit; it is nil where that is not seen.
func (in *instance) share() func(context.Context) (float64, error) {
	group, remote := in.Place().Group, in.byAgent()
	switch {
	case group != nil:
		return func(context.Context) (float64, error) {
			share, err := group.CPU()
			if err != nil || share == nil {
				return 0, err
			}
			return share.Cores, nil
		}
	case remote != nil:
		return func(ctx context.Context) (float64, error) { return remote.Share(ctx, in.Name) }
	}
	return nil
}

// awaitShare looks at the control group until it has the share: the status is told later.
func (in *instance) awaitShare(ctx context.Context, share func(context.Context) (float64, error), cores float64) error {
	const thousandth = 1e-3 // of a core, in which Kubernetes counts
	var refused error
	p := driver.Poll{Within: resizeWithin, First: 5 * time.Millisecond, Last: 40 * time.Millisecond}
	ok, err := p.Until(ctx, in.Life().Exited(), func(ctx context.Context) bool {
		if pod, _ := in.seen(); pod != nil {
			refused = infeasible(pod)
		}
		now, err := share(ctx)
		return err == nil && math.Abs(now-cores) < thousandth || refused != nil
	})
	if ok || err != nil || in.Life().HasEnded() {
		return errors.Join(refused, err)
	}
	return fmt.Errorf("its node did not change its CPU within %v", resizeWithin)
}

// infeasible says why a node does not resize a pod.
func infeasible(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible {
			return fmt.Errorf("node %s cannot give it that much CPU: %s", pod.Spec.NodeName, shortened(c.Message))
		}
	}
	return nil
}

// openGroup opens the control group of a container, where its node is this machine, unless agents
// watch it. Nobody watches what a job uses.
func (in *instance) openGroup(ctx context.Context, l *driver.Life, node, containerID string) (int, *cgroup.Group) {
	if in.job != nil || in.run.agents != nil {
		return 0, nil
	}
	c := &in.run.config
	pid, err := in.run.findContainer(ctx, node, containerID)
	var group *cgroup.Group
	if err == nil {
		group, err = cgroup.Of(c.ProcRoot, c.SysRoot, pid)
	}
	if _, elsewhere := errors.AsType[*elsewhereError](err); err != nil && (elsewhere || !in.hasEnded(l)) {
		// Agents are for what cannot be seen when the system is up.
		if in.run.unseen.CompareAndSwap(nil, &err) && in.run.isUp.Load() {
			in.run.warnUnseen(err)
		}
	}
	if err != nil {
		return 0, nil
	}
	return pid, group
}

// elsewhereError is why the processes of a pod are not seen, whether it has ended or not.
type elsewhereError struct{ text string }

func (e *elsewhereError) Error() string { return e.text }

// hasEnded waits a moment for the news of an end.
func (in *instance) hasEnded(l *driver.Life) bool {
	const within = 2 * time.Second // of which the node tells within one
	soon := time.NewTimer(within)
	defer soon.Stop()
	select {
	case <-l.Exited():
		return true
	case <-soon.C:
		return false
	}
}

// findContainer is the first process of a container on a node.
func (r *Running) findContainer(ctx context.Context, node, containerID string) (int, error) {
	if _, asked := r.config.agentImage(); asked {
		return 0, &elsewhereError{AgentVariable + " asks for agents"}
	}
	nodes, err := r.cluster.nodes(ctx)
	if err != nil {
		return 0, err
	}
	for i := range nodes {
		if n := &nodes[i]; n.Name == node && n.Status.NodeInfo.BootID != host.Boot(r.config.ProcRoot) {
			return 0, &elsewhereError{fmt.Sprintf("node %s is another machine than this one", node)}
		}
	}
	_, id, _ := strings.Cut(containerID, "://")
	pid, err := oldest(r.config.ProcRoot, id)
	if pid == 0 && err == nil {
		err = fmt.Errorf("no process on this machine is in a control group of a container %.12s, though node %s is this machine; run as root, in the machine's own pid and cgroup name spaces", id, node)
	}
	return pid, err
}

// oldest is the first of the processes whose control group is named after a container; 0
// if there is none.
func oldest(procRoot, containerID string) (int, error) {
	files, err := filepath.Glob(filepath.Join(procRoot, "[0-9]*", "cgroup"))
	if err != nil {
		return 0, err
	}
	var first guardian.Process
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || containerID == "" || !strings.Contains(string(text), containerID) {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		p, err := guardian.Identify(procRoot, pid)
		if err == nil && (first.PID == 0 || p.Start < first.Start || p.Start == first.Start && p.PID < first.PID) {
			first = p
		}
	}
	return first.PID, nil
}
