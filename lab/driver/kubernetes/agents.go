package kubernetes

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/host/agent"
	"loadstone/lab/topology"
)

const (
	// AgentVariable names the image of this program for the agents on nodes. Where it is set, agents
	// watch the pods even if they can be seen from here; none has none started. If it is not set,
	// the image is topology.Self, which is not pulled: what sees all of a node is not to be whatever
	// a registry has by that name.
	AgentVariable = "LOADSTONE_KUBE_AGENT"
	noAgents      = "none"

	agentsLabel = "loadstone/agent"
	// groupsDir is where an agent has the control groups of its node.
	groupsDir = "/host/cgroup"
	// agentsWithin bounds the start of agents, their image pulled: a run can go on without them.
	agentsWithin = 5 * time.Minute
)

// agentPod is the n-th agent, of an image and on a node, for a lab that has a key. It does what comes on its standard input, and ends when whoever
// is attached to that goes. No service has its name: that of a service ends with an index.
//
// It is not started again, whatever ends it, so that none is left to itself where the lab's machine is lost and
// nobody deletes the name space: it ends when it has heard nothing for a while (package agent), and a
// DaemonSet would begin again for ever. How long a run takes nobody knows before, so there is no deadline.
//
// It sees all processes of its node, because how long threads wait for a core is told of processes
// and not of control groups, and may send them signals, by which what has no limit is slowed down, and
// pods are paused and killed. It does so to containers that this lab has signed. It writes nothing: the mount is
// read-only, and where that holds at the top alone, since version 1 mounts each controller below and the
// runtime is too old for more, the agent says so.
func agentPod(namespace string, main corev1.Container, node string, n int, lab ed25519.PublicKey) *corev1.Pod {
	yes, no, root := true, false, int64(0)
	alone := corev1.RecursiveReadOnlyIfPossible
	main = corev1.Container{
		Name: mainContainer, Image: main.Image, ImagePullPolicy: main.ImagePullPolicy,
		Args:  []string{"internal", "agent", "--" + agent.ContainersFlag, groupsDir, "--" + agent.LabFlag, hex.EncodeToString(lab)},
		Stdin: true, StdinOnce: true,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// Not limited: a sample that comes late is of another moment. What is requested is a place.
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(100, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(64<<20, resource.BinarySI),
		}},
		VolumeMounts: []corev1.VolumeMount{{Name: "cgroup", MountPath: groupsDir, ReadOnly: true, RecursiveReadOnly: &alone}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"KILL"}},
		},
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d-agent", topology.Self, n), Namespace: namespace,
			Labels: map[string]string{managerLabel: topology.Self, agentsLabel: "yes"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)), HostPID: true,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Containers: []corev1.Container{main},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &root, RunAsGroup: &root, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: new(corev1.HostPathDirectory)},
			}}},
			Affinity: on([]string{node}),
		},
	}
}

// on has a pod be on one of some nodes.
func on(nodes []string) *corev1.Affinity {
	terms := make([]corev1.NodeSelectorTerm, 0, len(nodes))
	for _, name := range nodes { // each for itself: a term may have one name
		terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}}})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

// agents are the nodes that the pods run on as one machine, with an agent on each of them.
type agents struct {
	run *Running
	key ed25519.PrivateKey // by which they know what is asked by this lab
	log *os.File
	all []*node // most instances first

	once sync.Once
	err  error // of end
}

// node is one of them.
type node struct {
	name   string
	remote *agent.Remote

	finding sync.Mutex // held while its instances are found
}

// agentImage is the image of agents, empty for none of them, and whether they are asked for.
func (d Driver) agentImage() (image string, asked bool) {
	switch image = d.Env[AgentVariable]; image {
	case "":
		return topology.Self, false
	case noAgents:
		return "", false
	}
	return image, true
}

// watchByAgents has agents watch the pods if they cannot be seen from here. Where that is refused,
// the run goes on with metrics alone, and says so.
func (r *Running) watchByAgents(ctx context.Context) error {
	r.isUp.Store(true)
	unseen := r.unseen.Load()
	if unseen == nil {
		return nil
	}
	why := *unseen
	if image, asked := r.config.agentImage(); image != "" {
		pull := corev1.PullNever
		if asked {
			pull = corev1.PullIfNotPresent
		}
		err := r.startAgents(ctx, image, pull)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			return nil
		}
		why = fmt.Errorf("%w; and no agent there tells it (%s names its image): %w", why, AgentVariable, err)
	}
	r.warnUnseen(why)
	return nil
}

func (r *Running) warnUnseen(why error) {
	r.Warnf("what pods use cannot be seen from here, so no bottleneck is named by its CPU: %v", why)
}

// startAgents puts an agent on each node that has instances, and has it find them.
func (r *Running) startAgents(ctx context.Context, image string, pull corev1.PullPolicy) (err error) {
	nodes := r.nodesInUse()
	if len(nodes) == 0 {
		return errors.New("there is no pod")
	}
	lab, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	a := &agents{run: r, key: key}
	var made []string
	defer func() {
		if err == nil {
			r.agents = a
			return
		}
		_ = a.end() // why they cannot be had is known
		// Those that come later would watch nothing. What is left of them the name space takes along.
		for _, name := range made {
			_ = r.cluster.call(context.WithoutCancel(ctx), "delete the agents on nodes", func(ctx context.Context) error {
				return r.cluster.CoreV1().Pods(r.name).Delete(ctx, name, metav1.DeleteOptions{})
			})
		}
	}()
	for i, node := range nodes {
		pod := agentPod(r.name, corev1.Container{Image: image, ImagePullPolicy: pull}, node, i+1, lab)
		pod.OwnerReferences, made = r.owners(), append(made, pod.Name)
		err = r.cluster.call(ctx, "make the agents on nodes", func(ctx context.Context) error {
			_, err := r.cluster.CoreV1().Pods(r.name).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	pods, err := r.awaitPods(ctx, helpers{"", "", agentsLabel, agentsWithin}, len(nodes))
	if err != nil {
		return err
	}
	if a.log, err = os.Create(filepath.Join(r.config.LogDir, "agent.log")); err != nil {
		return err
	}
	if err := a.connect(ctx, pods, nodes); err != nil {
		return err
	}
	for _, n := range a.all {
		if err := a.find(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range a.all {
		ahead, uncertain := n.remote.Clock()
		if n.remote.Writable() {
			r.Warnf("the agent on node %s could write the control groups of its node, which it only reads: its container runtime mounts those of version 1 read-only at the top alone", n.name)
		}
		r.Warnf("the clock of node %s is ahead by %v (±%v), which is taken off its times", n.name, ahead.Round(time.Microsecond), uncertain.Round(time.Microsecond))
	}
	return nil
}

// nodesInUse are those that instances are on, most of them first.
func (r *Running) nodesInUse() []string {
	count := map[string]int{}
	var names []string
	for _, in := range r.instances {
		pod, _ := in.seen()
		if in.job != nil || pod == nil || pod.Spec.NodeName == "" {
			continue
		}
		if count[pod.Spec.NodeName]++; count[pod.Spec.NodeName] == 1 {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return count[b] - count[a] })
	return names
}

// connect connects to the agents in the order of the nodes.
func (a *agents) connect(ctx context.Context, pods []corev1.Pod, nodes []string) error {
	slices.SortFunc(pods, func(x, y corev1.Pod) int {
		return slices.Index(nodes, x.Spec.NodeName) - slices.Index(nodes, y.Spec.NodeName)
	})
	log := a.run.oneLog(a.log)
	a.all = make([]*node, len(pods))
	g, ctx := errgroup.WithContext(ctx)
	for i := range pods {
		a.all[i] = &node{name: pods[i].Spec.NodeName}
		g.Go(func() (err error) {
			// What ends it is its input.
			l := a.run.attach(context.WithoutCancel(ctx), &pods[i], log)
			a.all[i].remote, err = agent.Connect(ctx, "node "+a.all[i].name, agent.Link{In: l.In, Out: l.Out, Kill: l.Kill, Wait: l.Wait})
			return err
		})
	}
	return g.Wait()
}

// find has the agent of a node find all instances that run there now.
func (a *agents) find(ctx context.Context, n *node) error {
	n.finding.Lock()
	defer n.finding.Unlock()
	var wanted []agent.Wanted
	var there []*instance
	for _, in := range a.run.instances {
		pod, _ := in.seen()
		if in.job != nil || pod == nil || pod.Spec.NodeName != n.name || over(pod) {
			continue
		}
		if c, ok := started(pod); ok {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			w := agent.Wanted{Name: in.Name, Container: id, MayLimit: in.Service.Limits.CPUs == nil} // others are resized
			wanted = append(wanted, w.Sealed(a.key))
			there = append(there, in)
		}
	}
	found, err := n.remote.Find(ctx, wanted)
	if err != nil {
		return err
	}
	for i, f := range found {
		in := there[i]
		if l := in.Life(); f.Unseen != "" && (l.Asked() || l.HasEnded()) {
			continue
		}
		if f.Unseen != "" {
			a.run.Warnf("%s is not seen but for its metrics: %s", in.Name, f.Unseen)
			continue
		}
		in.mu.Lock()
		in.watcher = n.remote
		in.mu.Unlock()
	}
	return nil
}

// follow has an instance that was started again be found on its node, if there are agents.
func (a *agents) follow(ctx context.Context, in *instance, name string) {
	if a == nil || in.job != nil {
		return
	}
	err := fmt.Errorf("node %s has no agent", name)
	for _, n := range a.all {
		if n.name == name {
			err = a.find(ctx, n)
		}
	}
	if err != nil {
		a.run.Warnf("%s is not seen since it was started again: %v", in.Name, err)
	}
}

// names are those of the nodes.
func (a *agents) names() []string {
	var names []string
	for _, n := range a.all {
		names = append(names, n.name)
	}
	return names
}

// end ends the agents.
func (a *agents) end() error {
	a.once.Do(func() {
		for _, n := range a.all {
			if n.remote != nil {
				a.err = errors.Join(a.err, n.remote.Close())
			}
		}
		if a.log != nil {
			a.err = errors.Join(a.err, a.log.Close())
		}
	})
	return a.err
}

// byAgent is the agent that watches the instance; nil for none.
func (in *instance) byAgent() *agent.Remote {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.watcher
}
