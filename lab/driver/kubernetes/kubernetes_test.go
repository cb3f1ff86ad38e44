package kubernetes

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
)

const shop = `
services:
  db: {image: db}
  seed: {image: shop, depends_on: {db: {condition: service_started}}, volumes: [data:/data]}
  api: {image: shop, deploy: {replicas: 2}, labels: {prometheus.io/port: "9100"}, depends_on: {seed: {condition: service_completed_successfully}}}
volumes: {data: {}}
`

func TestServicesStartInOrderAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
	r, err := w.up(t.Context(), system(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"db-1", "seed-1", "api-1", "api-2"}; !slices.Equal(w.made, want) {
		t.Errorf("got %q made, want %q", w.made, want)
	}
	var names []string
	for _, in := range r.Instances() {
		names = append(names, in.Name)
		if in.Service == "api" && in.MetricsURL != "http://192.0.2.1:9100/metrics" {
			t.Errorf("got %+v", in)
		}
	}
	if want := []string{"db-1", "api-1", "api-2"}; !slices.Equal(names, want) {
		t.Errorf("got instances %q, want %q", names, want)
	}
	// The only node is another machine.
	if hosts := r.Hosts(); len(hosts) != 0 {
		t.Errorf("got hosts %v", hosts)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "what pods use cannot be seen from here, so no bottleneck is named by its CPU: node node1 is another machine") {
		t.Errorf("got warnings %q", w)
	}
	if len(w.left()) != 1 {
		t.Errorf("got name spaces %q of a run, want one", w.left())
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
	if err, open := <-r.Failed(); open {
		t.Errorf("got failure %v from a clean run", err)
	}
}

// What keeps a system from starting is one sentence, and nothing is left of it.
func TestUpFailsWithTheReason(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "db-1", errors.New("exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"))
	for name, c := range map[string]struct {
		becomes map[string]corev1.PodStatus
		prepare func(*world)
		want    string
	}{
		"quota": {
			prepare: func(w *world) {
				w.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, quota })
			},
			want: "start db-1: a quota of the name space refuses it (few, requested: pods=1, used: pods=1, limited: pods=1); raise the quota",
		},
		"image": {
			becomes: map[string]corev1.PodStatus{"db": waiting("ImagePullBackOff", `Back-off pulling image "db"`)},
			want:    `start db-1: the image db is not on node node1 and cannot be pulled (Back-off pulling image "db"); correct its name`,
		},
		"seeder": {
			becomes: map[string]corev1.PodStatus{"seed": exited(3)},
			want:    "seed-1 exited with status 3; its last lines",
		},
		"full": {
			becomes: map[string]corev1.PodStatus{"db": {Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: "0/2 nodes are available: 2 Insufficient cpu.", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}}},
			want: "start db-1: no node takes it: 0/2 nodes are available: 2 Insufficient cpu; lower its limits",
		},
		"claim": {
			becomes: map[string]corev1.PodStatus{"db": {Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}}},
			want: "unbound immediate PersistentVolumeClaims; give the cluster a default storage class",
		},
		"mount": {
			becomes: map[string]corev1.PodStatus{"db": settling()},
			prepare: func(w *world) {
				w.saying("db-1", "FailedMount", `MountVolume.SetUp failed for volume "pvc-1": no such device`)
			},
			want: `start db-1: node node1 cannot mount its volumes: MountVolume.SetUp failed for volume "pvc-1": no such device`,
		},
		"attach": {
			becomes: map[string]corev1.PodStatus{"db": settling()},
			prepare: func(w *world) { w.saying("db-1", "FailedAttachVolume", `Multi-Attach error for volume "pvc-1"`) },
			want:    `start db-1: its volume is in use on another node (Multi-Attach error for volume "pvc-1"); take a storage class`,
		},
		"evicted": {
			becomes: map[string]corev1.PodStatus{"db": {Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource."}},
			want:    "db-1 was ended by Kubernetes (OutOfcpu: Node didn't have enough resource)",
		},
		"user": {
			prepare: func(w *world) {
				w.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), "", errors.New(`User "me" cannot create resource`))
				})
			},
			want: `this user may not make a name space: User "me" cannot create resource`,
		},
		"away": {
			prepare: func(w *world) {
				w.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return false, nil, nil })
				w.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) { return false, nil, nil })
				w.away.Store(true)
			},
			want: "the API server at https://cluster does not answer (connection refused); look whether",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.becomes)
			if c.becomes["seed"].Phase == "" && c.becomes != nil {
				c.becomes["seed"] = exited(0)
			}
			if c.prepare != nil {
				c.prepare(w)
			}
			r, err := w.up(t.Context(), system(t, shop))
			if err == nil {
				_ = r.Down(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
			w.away.Store(false)
			if left := w.left(); len(left) > 0 {
				t.Errorf("there is left: %q", left)
			}
		})
	}
}

// settling is a pod that has been on its node for an hour without a container.
func settling() corev1.PodStatus {
	s := waiting("ContainerCreating", "")
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	return s
}

// saying has the cluster say something of a pod when it is made, after something else.
func (w *world) saying(pod, reason, message string) {
	w.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var errs []error
		for i, e := range []corev1.Event{{Reason: "Scheduled"}, {Reason: reason, Message: message}} {
			e.Name, e.Namespace = fmt.Sprintf("%s-%d", pod, i), a.GetNamespace()
			e.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Name: pod}
			e.LastTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
			if err := w.Tracker().Add(&e); !apierrors.IsAlreadyExists(err) {
				errs = append(errs, err)
			}
		}
		return false, nil, errors.Join(errs...)
	})
}

func TestACancelledUpLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]corev1.PodStatus{"db": waiting("ContainerCreating", "")})
	ctx, cancel := context.WithCancel(t.Context())
	w.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { cancel(); return false, nil, nil })
	if _, err := w.up(ctx, system(t, shop)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
}

// pod is the only one of a service.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.CoreV1().Pods(w.left()[0]).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func TestACrashIsReportedOnceWithTheLastLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
	r, err := w.up(t.Context(), system(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	pod := w.pod("api-2")
	pod.Status = exited(137)
	pod.Status.ContainerStatuses[0].State.Terminated.Reason = "Error"
	if _, err := w.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = <-r.Failed()
	ended, ok := errors.AsType[*driver.ExitError](err)
	if !ok || ended.Instance != "api-2" || ended.Status != "was killed by SIGKILL" || !slices.Equal(ended.Log, []string{"fake logs"}) {
		t.Errorf("got %v", err)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if err, open := <-r.Failed(); open {
		t.Errorf("got a second report: %v", err)
	}
}

// The status may say why a container was killed after it has said that it was.
func TestWhyAContainerWasKilledMayBeToldLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		gone  bool // what is told then is that there is no pod any more
		asked bool
		want  string
		takes time.Duration
	}{
		"within its time":       {after: time.Second, want: "api-1 was killed by SIGKILL, because it had used up its memory limit of 32 MiB; ", takes: time.Second},
		"too late":              {after: time.Minute, want: "api-1 was killed by SIGKILL: Kubernetes does not say by whom; if nobody killed it, it had used up its memory limit of 32 MiB; ", takes: driver.ReasonWithin},
		"the pod is removed":    {after: time.Second, gone: true, want: "api-1 was killed by SIGKILL: Kubernetes does not say by whom; ", takes: time.Second},
		"the end was asked for": {after: time.Second, asked: true, want: "api-1 was killed by SIGKILL while it should run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit := uint64(32 << 20)
				in := &instance{run: &Running{watched: make(chan struct{})}, changed: make(chan struct{})}
				in.Name, in.Service.Limits.Memory = "api-1", &limit
				first := &corev1.Pod{Status: exited(137)}
				first.Status.ContainerStatuses[0].State.Terminated.Reason = "Error"
				in.latest = first
				var telling sync.WaitGroup
				defer telling.Wait()
				telling.Go(func() {
					time.Sleep(c.after)
					in.mu.Lock()
					defer in.mu.Unlock()
					in.latest = nil
					if !c.gone {
						in.latest = first.DeepCopy()
						in.latest.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
					}
					close(in.changed)
					in.changed = make(chan struct{})
				})
				began := time.Now()
				err := in.exitError(t.Context(), first, nil, c.asked)
				if took := time.Since(began); err == nil || !strings.HasPrefix(err.Error(), c.want) || took != c.takes {
					t.Errorf("got %v after %v, want %q after %v", err, took, c.want, c.takes)
				}
			})
		})
	}
}

func TestAnAPIServerThatGoesAwayIsReported(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*world){
		"it ends":         (*world).endWatches,
		"it stands still": func(*world) {}, // and so do its watches
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
			r, err := w.up(t.Context(), system(t, shop))
			if err != nil {
				t.Fatal(err)
			}
			namespace := r.(*Running).name
			w.away.Store(true)
			lose(w)
			err = <-r.Failed()
			if want := "the cluster is lost: the API server at https://cluster does not answer (connection refused);"; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			w.away.Store(false)
			if err := r.Down(context.Background()); err != nil {
				t.Error(err)
			}
			if left := w.left(); slices.Contains(left, namespace) {
				t.Errorf("there is left: %q", left)
			}
		})
	}
}

func TestWhatALabThatIsNoMoreLeftIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
	alive, err := driver.RunName("/proc")
	if err != nil {
		t.Fatal(err)
	}
	here := driver.LabHost("/proc")
	for name, lab := range map[string]string{
		"loadstone-1073741824-5-00000000": here, // no pid is that high
		"loadstone-1073741824-5-00000001": "another/machine",
		alive:                             here,
		"loadstone-results":               here,
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managerLabel: "loadstone"}, Annotations: map[string]string{labAnnotation: lab}}}
		if _, err := w.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := w.up(t.Context(), system(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	want := []string{"loadstone-1073741824-5-00000001", alive, "loadstone-results"}
	slices.Sort(want)
	if left := w.left(); !slices.Equal(left, want) {
		t.Errorf("there is left: %q, want %q", left, want)
	}
}

func TestOnlyNameSpacesOfRunsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := &cluster{Interface: w}
	if err := c.remove(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "it is none of a run") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAClusterTheSentenceSaysWhereToNameOne(t *testing.T) {
	t.Parallel()
	if _, inside := os.LookupEnv("KUBERNETES_SERVICE_HOST"); inside {
		t.Skip("this is in a cluster")
	}
	d := Driver{Settings: driver.Settings{Env: map[string]string{"HOME": t.TempDir()}}}
	if err := d.Check(t.Context(), system(t, `services: {api: {image: x}}`)); err == nil || !strings.HasPrefix(err.Error(), "no cluster is configured; say with KUBECONFIG") {
		t.Errorf("got %v", err)
	}
}

// The files of KUBECONFIG are edited while a run goes on, by the tools of people who work
// with several clusters. The trials that follow, and what is removed in the end, are in the cluster of its
// beginning.
func TestTheClusterStaysTheSame(t *testing.T) {
	const contexts = `apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://192.0.2.1:6443", certificate-authority: ca.pem}}
- {name: b, cluster: {server: "https://192.0.2.2:6443"}}
contexts:
- {name: staging, context: {cluster: a, user: u}}
- {name: production, context: {cluster: b, user: u}}
users:
- {name: u, user: {token: t}}
current-context: `
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.pem", authority(t))
	write("config", contexts+"staging\n")
	d := New(driver.Settings{Env: map[string]string{"KUBECONFIG": "config", "CLOUD_PROFILE": "p"}}, []string{"/remover"})
	if got := d.Where(); got != "staging at https://192.0.2.1:6443" {
		t.Errorf("got %q", got)
	}
	c, err := d.connect()
	if err != nil {
		t.Fatal(err)
	}
	command := d.removal(c, "loadstone-1-2-00000003")
	for _, edited := range []string{
		contexts + "production\n",
		strings.ReplaceAll(contexts, "192.0.2.1", "192.0.2.3") + "staging\n",
		strings.ReplaceAll(contexts, "staging", "other") + "other\n",
		"",
	} {
		write("config", edited)
		if got := d.Where(); got != "staging at https://192.0.2.1:6443" {
			t.Errorf("the next trial is at %q", got)
		}
		t.Chdir("/")
		wantRemovedAt(t, command, "https://192.0.2.1:6443")
		t.Chdir(dir)
	}
	another := Driver{Settings: d.Settings}
	write("config", contexts+"production\n")
	if got := another.Where(); !strings.HasPrefix(got, "production ") {
		t.Errorf("the next run is at %q", got)
	}
}

// wantRemovedAt wants a command to find a cluster from elsewhere, with all that is in its
// environment.
func wantRemovedAt(t *testing.T, command guardian.Command, server string) {
	t.Helper()
	env := map[string]string{}
	for _, kv := range command.Env {
		key, value, _ := strings.Cut(kv, "=")
		env[key] = value
	}
	if env["CLOUD_PROFILE"] != "p" {
		t.Errorf("what credentials may need is missing: %q", command.Env)
	}
	then, err := connect(env)
	if err != nil || then.server != server || then.config.BearerToken != "t" {
		t.Errorf("it is removed at %+v, %v, and was made at %s", then, err, server)
	}
}

// authority is a certificate.
func authority(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestMachinesOfNodes(t *testing.T) {
	t.Parallel()
	node := func(boot string, cores int64) corev1.Node {
		var n corev1.Node
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.Architecture = boot, "amd64"
		n.Status.Capacity = resourcesOf(cores)
		return n
	}
	m, _ := machineOf([]corev1.Node{node("a", 4), node("b", 8), node("a", 4)}, "c")
	if m.Cores != 12 || m.CPU != "2 nodes of a Kubernetes cluster (amd64)" {
		t.Errorf("got %+v, want 12 cores of two machines", m)
	}
	if m, _ := machineOf([]corev1.Node{node("c", 400)}, "c"); m.Cores == 400 || m.Kernel == "" || !m.LimitsEnforced {
		t.Errorf("got %+v, want this machine", m)
	}
	if _, warnings := machineOf(nil, "c"); len(warnings) != 1 {
		t.Errorf("got %q of no nodes", warnings)
	}
}
