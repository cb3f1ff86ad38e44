package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/format"
	"loadstone/lab/load/generator"
	"loadstone/lab/topology"
)

const (
	// generatorsName is that of the Job of the generators, and of what is its part. No
	// service has it: that of a service ends with an index.
	generatorsName  = topology.Self + "-generators"
	generatorsLabel = "loadstone/generator"
)

// generators is the Job of n load generators, each on a node of its own, and not where the
// system is if there is room elsewhere. A generator does what comes on its standard input,
// and ends when whoever is attached to that goes.
func generators(namespace, image string, n int) *batchv1.Job {
	count, yes, no, user := int32(n), true, false, selfUser
	labels := map[string]string{managerLabel: topology.Self, generatorsLabel: "yes"}
	apart := func(s metav1.LabelSelector) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: &s, TopologyKey: corev1.LabelHostname}
	}
	const wish = 100 // the heaviest there is
	main := corev1.Container{
		Name: mainContainer, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"internal", "generator"}, Stdin: true, StdinOnce: true,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// Not limited: it has to be faster than the system. What is requested is a place.
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(100, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(64<<20, resource.BinarySI),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: generatorsName, Namespace: namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			Completions: &count, Parallelism: &count, BackoffLimit: new(int32),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
				AutomountServiceAccountToken: &no, EnableServiceLinks: &no, Containers: []corev1.Container{main},
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart(metav1.LabelSelector{MatchLabels: map[string]string{generatorsLabel: "yes"}})},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: wish, PodAffinityTerm: apart(metav1.LabelSelector{
						MatchExpressions: []metav1.LabelSelectorRequirement{{Key: instanceLabel, Operator: metav1.LabelSelectorOpExists}},
					})}},
				}},
			}},
		},
	}
}

// Generators starts n load generators in the cluster, each on a node of its own, of an image
// that is this program, and attaches to them; they have files of this machine, and log gets what
// they have to say. They are in the system's name space, so they end with it, and with this program.
func (r *Running) Generators(ctx context.Context, image string, n int, files []string, log io.Writer) ([]generator.Link, error) {
	if err := r.cluster.wantNodes(ctx, n); err != nil {
		return nil, err
	}
	job := generators(r.name, image, n)
	job.OwnerReferences = r.owners()
	carried, err := carry(&job.Spec.Template.Spec, r.name, files)
	if err != nil {
		return nil, err
	}
	if err := r.makeFiles(ctx, carried); err != nil {
		return nil, err
	}
	err = r.cluster.call(ctx, "make the job of the load generators", func(ctx context.Context) error {
		_, err := r.cluster.BatchV1().Jobs(r.name).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	pods, err := r.awaitPods(ctx, helpers{"Job", generatorsName, generatorsLabel, startWithin}, n)
	if err != nil {
		return nil, fmt.Errorf("start load generators: %w", err)
	}
	links := make([]generator.Link, 0, n)
	shared := r.oneLog(log)
	for i := range pods {
		links = append(links, r.attach(ctx, &pods[i], shared))
	}
	return links, nil
}

// CheckGenerators says whether there is room in the cluster for n load generators.
func (d Driver) CheckGenerators(ctx context.Context, n int) error {
	c, err := d.connect()
	if err != nil {
		return err
	}
	return c.wantNodes(ctx, n)
}

// wantNodes says so at once where there are fewer nodes than generators. Who may not see
// nodes hears it from the scheduler.
func (c *cluster) wantNodes(ctx context.Context, n int) error {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	free := 0
	for i := range nodes {
		if takesPods(&nodes[i]) {
			free++
		}
	}
	if free < n {
		return fmt.Errorf("%s: each has a node of its own, and the cluster has %d for pods; ask for %d at the most", format.Plural(n, "load generator"), free, free)
	}
	return nil
}

func takesPods(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			return false
		}
	}
	return !n.Spec.Unschedulable
}

// helpers are pods that are none of the system's.
type helpers struct {
	kind, name string // of what has them made; empty for this program
	label      string // which they have
	within     time.Duration
}

// awaitPods waits until all n of them run.
func (r *Running) awaitPods(ctx context.Context, h helpers, n int) (pods []corev1.Pod, err error) {
	p := driver.Poll{Within: h.within, First: 50 * time.Millisecond, Last: lookEvery}
	ok, errEnd := p.Until(ctx, r.watched, func(ctx context.Context) bool {
		err = r.cluster.call(ctx, "look for pods", func(ctx context.Context) error {
			list, err := r.cluster.CoreV1().Pods(r.name).List(ctx, metav1.ListOptions{LabelSelector: h.label})
			if err == nil {
				pods = list.Items
			}
			return err
		})
		if err == nil && len(pods) < n && h.kind != "" {
			err = r.refused(ctx, h.kind, h.name)
		}
		running := 0
		for i := 0; i < len(pods) && err == nil; i++ {
			c, ok := started(&pods[i])
			switch {
			case over(&pods[i]):
				err = errors.New(ending(&pods[i]))
			case ok && c.State.Running != nil:
				running++
			default:
				err = r.hindered(ctx, &pods[i])
			}
		}
		return err != nil || running == n
	})
	switch {
	case ok && err == nil:
		return pods, nil
	case err != nil:
		return nil, err
	case errEnd != nil:
		return nil, errEnd
	}
	return nil, fmt.Errorf("they do not run within %v", h.within)
}

// helper is what a pod is that is none of the system's, and where, for people.
func helper(pod *corev1.Pod) string {
	what := "generator"
	if pod.Labels[agentsLabel] != "" {
		what = "agent"
	}
	return fmt.Sprintf("the %s on node %s", what, pod.Spec.NodeName)
}

// ending is how the pod of a generator or an agent came to its end.
func ending(pod *corev1.Pod) string {
	text := fmt.Sprintf("the pod of %s has ended", helper(pod))
	if pod.Status.Reason != "" { // evicted, or refused by its node
		return fmt.Sprintf("%s (%s: %s)", text, pod.Status.Reason, shortened(pod.Status.Message))
	}
	for i := range pod.Status.ContainerStatuses {
		t := pod.Status.ContainerStatuses[i].State.Terminated
		switch {
		case t == nil:
		case outOfMemory(pod):
			return text + ": its node had no memory left for it"
		case t.Message != "":
			return fmt.Sprintf("%s with status %d: %s", text, t.ExitCode, shortened(driver.LastLine(t.Message)))
		default:
			return fmt.Sprintf("%s with status %d", text, t.ExitCode)
		}
	}
	return text
}

// attach is the standard input and output of the pod of a generator or an agent. Its end is that of ctx, of
// its input, or of the connection.
func (r *Running) attach(ctx context.Context, pod *corev1.Pod, log io.Writer) generator.Link {
	ctx, cancel := context.WithCancel(ctx)
	in, input := io.Pipe()
	output, out := io.Pipe()
	done, asked := make(chan struct{}), &closing{PipeWriter: input}
	go func() {
		defer close(done)
		err := r.cluster.attach(ctx, r.name, pod.Name, streams{in, out, log})
		if ctx.Err() == nil && !asked.closed.Load() {
			err = r.whyEnded(ctx, pod, err)
		}
		// Neither of the two waits for the other side any more.
		_ = in.CloseWithError(err)
		_ = out.CloseWithError(err)
	}()
	return generator.Link{Name: pod.Spec.NodeName, FilesBelow: filesDir, In: asked, Out: output, Kill: cancel, Wait: func() error {
		<-done
		cancel()
		return nil // what it had to say, its output did
	}}
}

// closing is the input of a program that remembers whether it was closed.
type closing struct {
	*io.PipeWriter

	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return c.PipeWriter.Close()
}

// endKnownWithin is how long it takes at the most until the end of a pod is known.
const endKnownWithin = 5 * time.Second

// whyEnded is why a generator or an agent is not attached any more that was not asked to end.
func (r *Running) whyEnded(ctx context.Context, pod *corev1.Pod, err error) error {
	p := driver.Poll{Within: endKnownWithin, First: 50 * time.Millisecond, Last: lookEvery}
	var why error
	_, _ = p.Until(ctx, nil, func(ctx context.Context) bool { // why it is unknown, is unknown as well
		known := false
		errGet := r.cluster.call(ctx, "look at its pod", func(ctx context.Context) error {
			now, err := r.cluster.CoreV1().Pods(r.name).Get(ctx, pod.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				known = true
				if why == nil {
					why = fmt.Errorf("the pod of %s was deleted", helper(pod))
				}
				return nil
			case err == nil && over(now): // by whom one was killed, may be told later
				why, known = errors.New(ending(now)), !killed(now) || outOfMemory(now)
			}
			return err
		})
		return errGet != nil || known
	})
	if why != nil {
		return why
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the connection to %s has ended: %w", helper(pod), err)
}

// oneWriter is a log for several, of which as much is kept as of an instance's.
type oneWriter struct {
	mu sync.Mutex
	to driver.BoundedLog
}

func (r *Running) oneLog(to io.Writer) *oneWriter {
	return &oneWriter{to: driver.BoundedLog{To: to, Room: r.config.LogBytes}}
}

func (w *oneWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
