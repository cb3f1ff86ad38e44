package kubernetes

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	discovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/agent"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// The test binary is also a guardian, what a guardian calls, and a lab to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "internal-guardian":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		err = guardian.Run(context.Background(), os.Stdin, os.Stdout)
	case "keeper":
		err = agent.Keep(os.Stdin, os.Stdout)
	case "shim":
		err = cgroup.JoinAndExec(os.Args[2:], os.Environ())
	case "remove":
		if err = Remove(context.Background(), clusterDriver().Env, os.Args[2]); Refused(err) {
			syscall.Exit(2)
		}
	case "lab":
		err = lab(os.Args[2])
	default:
		os.Exit(m.Run())
	}
	status := 0
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	syscall.Exit(status) // not os.Exit, in which the race detector waits for a second
}

// world is a cluster of a node that starts pods as a test says, and of controllers that make
// the pods of jobs and remove what is in a name space that is deleted.
type world struct {
	*fake.Clientset

	t *testing.T
	// becomes is the status of a pod that was made, by its service.
	becomes map[string]corev1.PodStatus
	// away is whether the API server does not answer.
	away atomic.Bool
	// early is what the next question about a pod is answered with; nil for what there is.
	early atomic.Pointer[corev1.Pod]
	// attachTo is what is attached to pods; nil for nothing.
	attachTo func(ctx context.Context, namespace, pod string, s streams) error
	// agent is the value of AgentVariable.
	agent string
	// remover is a Driver's.
	remover []string

	mu      sync.Mutex
	serial  int
	made    []string // pods and jobs in the order in which they were made
	watches []watch.Interface
}

func newWorld(t *testing.T, becomes map[string]corev1.PodStatus) *world {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	node.Status.NodeInfo.BootID = "another machine's"
	w := &world{Clientset: fake.NewClientset(node), t: t, becomes: becomes, agent: noAgents, remover: []string{"/bin/true"}}
	w.Discovery().(*discovery.FakeDiscovery).FakedServerVersion = &version.Info{Minor: "36+"}
	w.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject()
		return true, o, w.create(a, o)
	})
	w.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		early := w.early.Swap(nil)
		return early != nil, early, nil
	})
	w.PrependReactor("delete", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return false, nil, w.empty(a.(clienttesting.DeleteAction).GetName())
	})
	w.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if w.away.Load() {
			return true, nil, &url.Error{Op: "Get", URL: "https://cluster", Err: syscall.ECONNREFUSED}
		}
		return false, nil, nil
	})
	w.PrependWatchReactor("pods", func(a clienttesting.Action) (bool, watch.Interface, error) {
		watched, err := w.watch(a.GetResource(), a.GetNamespace())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watches = append(w.watches, watched)
		return true, watched, err
	})
	return w
}

// create makes an object, and the pods of a job.
func (w *world) create(a clienttesting.Action, o runtime.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	m.SetUID(types.UID(fmt.Sprint(w.serial)))
	if pod, ok := o.(*corev1.Pod); ok {
		w.begin(pod)
	}
	if job, ok := o.(*batchv1.Job); ok {
		n := int32(1)
		if job.Spec.Parallelism != nil {
			n = *job.Spec.Parallelism
		}
		for i := range n {
			pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
			pod.Name, pod.Namespace, pod.UID = fmt.Sprintf("%s-x%dy2z", job.Name, i+1), job.Namespace, types.UID(fmt.Sprintf("%d of %s", i, job.Name))
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}}
			w.begin(pod)
			pod.Spec.NodeName = fmt.Sprintf("node%d", i+1)
			if err := w.Tracker().Add(pod); err != nil {
				return err
			}
		}
	}
	return w.Tracker().Create(a.GetResource(), o, a.GetNamespace())
}

// watch begins with what is there: unlike a real one, that of the fake client knows no
// versions, and what comes between a list and a watch would be missed.
func (w *world) watch(pods schema.GroupVersionResource, namespace string) (watch.Interface, error) {
	changes, err := w.Tracker().Watch(pods, namespace)
	if err != nil {
		return nil, err
	}
	list, err := w.Tracker().List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), namespace)
	if err != nil {
		return nil, err
	}
	there := list.(*corev1.PodList).Items
	f := &following{Interface: changes, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(f.events)
		for i := range there {
			f.send(watch.Event{Type: watch.Added, Object: &there[i]})
		}
		for e := range changes.ResultChan() {
			f.send(e)
		}
	}()
	return f, nil
}

// following is a watch with events before its own.
type following struct {
	watch.Interface

	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (f *following) ResultChan() <-chan watch.Event { return f.events }

func (f *following) Stop() {
	f.once.Do(func() { close(f.stopped) })
	f.Interface.Stop()
}

func (f *following) send(e watch.Event) {
	select {
	case f.events <- e:
	case <-f.stopped:
	}
}

// endWatches ends them as the loss of the connection does.
func (w *world) endWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watched := range w.watches {
		watched.Stop()
	}
}

// begin gives a pod that is being made its status.
func (w *world) begin(pod *corev1.Pod) {
	w.made = append(w.made, pod.Labels[instanceLabel])
	pod.Spec.NodeName = "node1"
	status, ok := w.becomes[pod.Labels[serviceLabel]]
	if !ok {
		status = running()
	}
	pod.Status = *status.DeepCopy()
}

// empty removes what is in a name space but what belongs to nobody: all of it has to belong to the lab's
// object.
func (w *world) empty(namespace string) error {
	for _, kind := range []struct{ group, version, resource, kind string }{
		{"", "v1", "pods", "Pod"}, {"", "v1", "configmaps", "ConfigMap"}, {"", "v1", "secrets", "Secret"},
		{"", "v1", "services", "Service"}, {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"}, {"batch", "v1", "jobs", "Job"},
	} {
		gvr := schema.GroupVersionResource{Group: kind.group, Version: kind.version, Resource: kind.resource}
		list, err := w.Tracker().List(gvr, schema.GroupVersionKind{Group: kind.group, Version: kind.version, Kind: kind.kind}, namespace)
		if err != nil {
			return err
		}
		items, err := accessors(list)
		if err != nil {
			return err
		}
		for _, o := range items {
			if len(o.GetOwnerReferences()) == 0 && o.GetName() != ownerName && o.GetLabels()[instanceLabel] == "" {
				w.t.Errorf("%s %s belongs to nobody", kind.kind, o.GetName())
			}
			if err := w.Tracker().Delete(gvr, namespace, o.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// left are the name spaces that are there.
func (w *world) left() []string {
	w.t.Helper()
	list, err := w.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func container(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{PodIP: "192.0.2.1", ContainerStatuses: []corev1.ContainerStatus{{
		Name: mainContainer, ContainerID: "containerd://0123456789abcdef0123", State: state,
	}}}
}

func running() corev1.PodStatus {
	s := container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	s.Phase = corev1.PodRunning
	return s
}

func exited(status int32) corev1.PodStatus {
	s := container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status}})
	s.Phase = corev1.PodFailed
	if status == 0 {
		s.Phase = corev1.PodSucceeded
	}
	return s
}

func waiting(reason, message string) corev1.PodStatus {
	s := container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	s.ContainerStatuses[0].ContainerID = ""
	return s
}

// up brings a system up in the world.
func (w *world) up(ctx context.Context, s *topology.System) (driver.Running, error) {
	w.t.Helper()
	d := Driver{Settings: driver.DefaultSettings(), Remover: w.remover, cluster: &cluster{Interface: w, server: "https://cluster", attachTo: w.attachTo}, lostAfter: 50 * time.Millisecond}
	d.Guardian = []string{os.Args[0], "internal-guardian"}
	d.Env = map[string]string{AgentVariable: w.agent}
	return d.Up(ctx, driver.Config{System: s, LogDir: filepath.Join(w.t.TempDir(), "logs")})
}

func resourcesOf(cores int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)}
}

// accessors are the objects of a list.
func accessors(list runtime.Object) ([]metav1.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	all := make([]metav1.Object, 0, len(items))
	for _, item := range items {
		o, err := meta.Accessor(item)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}
