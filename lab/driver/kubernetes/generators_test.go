package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"loadstone/lab/load"
	"loadstone/lab/load/generator"
	"loadstone/lab/load/loadtest"
)

const one = `services: {api: {image: shop}}`

// serving is what is attached to a generator's pod: the generator.
func serving(ctx context.Context, _, _ string, s streams) error {
	return generator.Serve(ctx, s.in, s.out)
}

// withNodes has the world have so many nodes.
func (w *world) withNodes(n int) *world {
	w.t.Helper()
	for _, name := range []string{"node2", "node3", "node4"}[:n-1] {
		if _, err := w.CoreV1().Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	return w
}

// generating has the world have a system, and asks for generators beside it.
func (w *world) generating(ctx context.Context, n int, files ...string) ([]generator.Link, error) {
	w.t.Helper()
	r, err := w.up(w.t.Context(), system(w.t, one))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.away.Store(false)
		if err := r.Down(context.Background()); err != nil {
			w.t.Error(err)
		}
		if left := w.left(); len(left) > 0 {
			w.t.Errorf("there is left: %q", left)
		}
	})
	return r.(*Running).Generators(ctx, "registry.example/loadstone:1", n, files, io.Discard)
}

func TestTheJobOfGenerators(t *testing.T) {
	t.Parallel()
	text, err := yaml.Marshal(generators("loadstone-1-2-abcdef01", "registry.example/loadstone:1", 3))
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "generators", append([]byte("---\n"), text...))
}

// Generators on two nodes offer each arrival of a plan once.
func TestGeneratorsOfAClusterShareALoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).withNodes(3)
	var mu sync.Mutex
	var attached []string
	w.attachTo = func(ctx context.Context, namespace, pod string, s streams) error {
		mu.Lock()
		attached = append(attached, pod)
		mu.Unlock()
		return serving(ctx, namespace, pod, s)
	}
	links, err := w.generating(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	g, err := generator.Join(t.Context(), links)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	plan := loadtest.OpenPlan(server.URL, 200, 500*time.Millisecond, 16)
	r, err := g.Run(t.Context(), plan, nil)
	if err != nil || r.Offered != loadtest.Due(plan) || len(r.Parts) != 2 || r.Parts[0].Offered+r.Parts[1].Offered != r.Offered {
		t.Errorf("offered %d of %d in %+v, %v", r.Offered, loadtest.Due(plan), r.Parts, err)
	}
	if clocks := strings.Join(g.Clocks(), "\n"); len(attached) != 2 || !strings.Contains(clocks, "generator node1") || !strings.Contains(clocks, "generator node2") {
		t.Errorf("attached to %q: %s", attached, clocks)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// What keeps generators from starting is one sentence.
func TestGeneratorsThatDoNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		becomes corev1.PodStatus
		prepare func(*world)
		want    string
	}{
		"too few nodes": {prepare: func(w *world) {
			tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "control"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Effect: corev1.TaintEffectNoSchedule}}}}
			for _, node := range []*corev1.Node{tainted, {ObjectMeta: metav1.ObjectMeta{Name: "drained"}, Spec: corev1.NodeSpec{Unschedulable: true}}} {
				if _, err := w.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
					w.t.Fatal(err)
				}
			}
			if err := w.CoreV1().Nodes().Delete(context.Background(), "node2", metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, want: "2 load generators: each has a node of its own, and the cluster has 1 for pods; ask for 1 at the most"},
		"image":   {becomes: waiting("ImagePullBackOff", "Back-off"), want: "start load generators: the image registry.example/loadstone:1 is not on node node1 and cannot be pulled"},
		"another": {becomes: exited(2), want: "start load generators: the pod of the generator on node node1 has ended with status 2"},
		"quota": {prepare: func(w *world) {
			w.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
				event := &corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: a.GetNamespace()}, Reason: "FailedCreate",
					InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: generatorsName}, Message: "pods is forbidden: exceeded quota: few, requested: pods=1",
				}
				return true, nil, w.Tracker().Add(event)
			})
		}, want: "start load generators: a quota of the name space refuses it (few, requested: pods=1)"},
		"away": {prepare: func(w *world) {
			w.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				w.away.Store(true)
				return false, nil, nil
			})
		}, want: "the API server at https://cluster does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]corev1.PodStatus{"": c.becomes}).withNodes(2)
			if c.becomes.Phase == "" && len(c.becomes.ContainerStatuses) == 0 {
				delete(w.becomes, "")
			}
			if c.prepare != nil {
				c.prepare(w)
			}
			d := Driver{cluster: &cluster{Interface: w, server: "https://cluster"}}
			if err := d.CheckGenerators(t.Context(), 2); (err != nil) != (name == "too few nodes") {
				t.Errorf("before: %v", err)
			}
			if _, err := w.generating(t.Context(), 2); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
		})
	}
}

// cut is an output of which nothing comes once it is off.
type cut struct {
	to  io.Writer
	off atomic.Bool
}

func (c *cut) Write(p []byte) (int, error) {
	if c.off.Load() {
		return len(p), nil
	}
	return c.to.Write(p)
}

// A generator whose pod ends under load says why, and so does one to which the connection is
// lost.
func TestAGeneratorThatEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w *world, pod *corev1.Pod) error // under load
		want string
	}{
		"out of memory": {func(w *world, pod *corev1.Pod) error {
			pod.Status = exited(137)
			pod.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
			return w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
		}, "generator node1: load generator: the pod of the generator on node node1 has ended: its node had no memory left for it"},
		"out of memory, of which the status tells later": {func(w *world, pod *corev1.Pod) error {
			pod.Status = exited(137)
			w.early.Store(pod.DeepCopy())
			pod.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
			return w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
		}, "has ended: its node had no memory left for it"},
		"evicted": {func(w *world, pod *corev1.Pod) error {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
			return w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
		}, "has ended (Evicted: The node was low on resource: memory)"},
		"deleted": {func(w *world, pod *corev1.Pod) error {
			return w.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name)
		}, "the pod of the generator on node node1 was deleted"},
		"cut off": {func(w *world, _ *corev1.Pod) error {
			w.away.Store(true)
			return nil
		}, "the connection to the generator on node node1 has ended: reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			ending := make(chan error)
			w.attachTo = func(ctx context.Context, _, _ string, s streams) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				served, out := make(chan error, 1), &cut{to: s.out}
				go func() { served <- generator.Serve(ctx, s.in, out) }()
				select {
				case err := <-ending:
					out.off.Store(true)
					cancel()
					<-served
					return err
				case err := <-served:
					return err
				}
			}
			links, err := w.generating(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			g, err := generator.Join(t.Context(), links)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			var once sync.Once
			plan := loadtest.OpenPlan(server.URL, 100, time.Hour, 16)
			_, err = g.Run(t.Context(), plan, func(load.Window) string {
				once.Do(func() {
					if err := c.end(w, w.pod(generatorsName+"-x1y2z")); err != nil {
						t.Error(err)
					}
					ending <- errors.New("reset by peer")
				})
				return ""
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The end of the trial is that of the generators.
func TestGeneratorsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.attachTo = serving
	ctx, cancel := context.WithCancel(t.Context())
	links, err := w.generating(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := links[0].Wait(); err != nil {
		t.Error(err)
	}
	if _, err := links[0].Out.Read(make([]byte, 1)); err == nil {
		t.Error("there is output of a generator that has ended")
	}
	if _, err := links[0].In.Write([]byte("x")); err == nil {
		t.Error("a generator that has ended takes input")
	}
}
