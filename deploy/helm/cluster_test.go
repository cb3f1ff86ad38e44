package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// outside is the address beside the cluster, where its stores are.
	outside = "10.240.0.1"
	// storageClass is the one of the cluster, which claims get that name none.
	storageClass = "directories"
	// soon bounds what takes seconds, on a machine that is busy.
	soon = 3 * time.Minute
)

// beside is the cluster of scripts/kubernetes, with a name space of the test's own.
type beside struct {
	t         *testing.T
	namespace string
	dir       string
	config    *rest.Config
	client.Interface
}

// inCluster skips unless this runs beside a cluster. In the name space it makes there is no pod but of the strictest of
// Kubernetes' standards.
func inCluster(t *testing.T, name string) *beside {
	t.Helper()
	if os.Getenv("CLUSTER") == "" {
		t.Skip("needs a cluster: make test-kubernetes")
	}
	b := &beside{t: t, namespace: name, dir: t.TempDir()}
	file, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	b.must(err)
	file.Contexts[file.CurrentContext].Namespace = name
	b.must(clientcmd.WriteToFile(*file, b.path("kubeconfig")))
	b.config, err = clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	b.must(err)
	b.config.WarningHandler = rest.NoWarnings{} // of kinds that are listed because there are some
	b.Interface, err = client.NewForConfig(b.config)
	b.must(err)

	tree, err := filepath.Abs("..")
	b.must(err)
	b.must(os.MkdirAll(b.path("bin"), 0o755))
	b.must(os.Symlink(tree, b.path("deploy")))
	b.must(os.Symlink(program(t), b.path("bin/loadstone")))
	b.must(os.Symlink(os.Getenv("HELM"), b.path("bin/helm")))
	b.write("bin/kubectl", "#!/bin/sh\nexec \"$HYPERKUBE\" kubectl \"$@\"\n", 0o755)

	labels := map[string]string{}
	for _, how := range []string{"enforce", "warn"} {
		labels["pod-security.kubernetes.io/"+how] = "restricted"
	}
	_, err = b.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	b.must(err)
	t.Cleanup(b.remove)
	b.until("its service account", func(ctx context.Context) error {
		_, err := b.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return b
}

func (b *beside) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *beside) path(name string) string { return filepath.Join(b.dir, name) }

func (b *beside) write(name, text string, mode os.FileMode) {
	b.t.Helper()
	b.must(os.WriteFile(b.path(name), []byte(text), mode))
}

func (b *beside) remove() {
	ctx := context.Background()
	_ = b.CoreV1().Namespaces().Delete(ctx, b.namespace, metav1.DeleteOptions{})
	b.until("the end of its name space", func(context.Context) error {
		_, err := b.CoreV1().Namespaces().Get(ctx, b.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// until waits for what controllers do.
func (b *beside) until(what string, ask func(context.Context) error) {
	b.t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(100 * time.Millisecond) {
		err := ask(context.WithoutCancel(b.t.Context()))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// command is a program of the test's directory, in which helm and kubectl mean its name space.
func (b *beside) command(argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), argv[0], argv[1:]...)
	if own := b.path("bin/" + argv[0]); exists(own) {
		cmd.Path, cmd.Err = own, nil
	}
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.path("kubeconfig"), "PATH="+b.path("bin")+":"+os.Getenv("PATH"), "HOME="+b.dir)
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (b *beside) run(argv ...string) string {
	b.t.Helper()
	began := time.Now()
	out, err := b.command(argv...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v:\n%s\n%s", strings.Join(argv, " "), err, out, b.state())
	}
	if argv[0] == "helm" {
		b.t.Logf("%s: %.1f s", strings.Join(argv[:2], " "), time.Since(began).Seconds())
	}
	return string(out)
}

// state is what the name space looks like, for who reads that a test failed.
func (b *beside) state() string {
	out, _ := b.command("bash", "-c", "kubectl get all,pvc,pdb --output wide; kubectl get events --sort-by lastTimestamp | tail -n 15; "+
		"for pod in $(kubectl get pods --output name); do kubectl logs --all-containers --tail 5 $pod; done").CombinedOutput()
	return string(out)
}

// volumes makes volumes for the claims of a release: the cluster has no provisioner whose volumes may be written
// without being root.
func (b *beside) volumes(r *release) (claims []string) {
	b.t.Helper()
	for _, w := range r.workloads {
		if w.kind != "StatefulSet" {
			continue
		}
		claim := "data-" + w.GetName() + "-0"
		name := b.namespace + "-" + claim
		dir := filepath.Join(os.Getenv("CLUSTER"), "volumes-of-charts", name)
		b.must(os.MkdirAll(dir, 0o755))
		_, err := b.CoreV1().PersistentVolumes().Create(b.t.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: storageClass, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
				ClaimRef:                      &corev1.ObjectReference{Namespace: b.namespace, Name: claim},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node1"}}},
				}}}},
			},
		}, metav1.CreateOptions{})
		b.must(err)
		b.t.Cleanup(func() {
			_ = b.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
			_ = os.RemoveAll(dir)
		})
		claims = append(claims, claim)
	}
	return claims
}

// nothingIsLeft wants the name space empty, but for what every one has and for what is named.
func (b *beside) nothingIsLeft(but ...string) {
	b.t.Helper()
	but = append(but, "configmaps/kube-root-ca.crt", "serviceaccounts/default")
	lists, err := b.Discovery().ServerPreferredNamespacedResources()
	b.must(err)
	everything, err := dynamic.NewForConfig(b.config)
	b.must(err)
	b.until("the end of all objects", func(ctx context.Context) error {
		var left []string
		for _, l := range lists {
			version, err := schema.ParseGroupVersion(l.GroupVersion)
			if err != nil {
				return err
			}
			for _, r := range l.APIResources {
				if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
					continue
				}
				found, err := everything.Resource(version.WithResource(r.Name)).Namespace(b.namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, o := range found.Items {
					if name := r.Name + "/" + o.GetName(); !slices.Contains(but, name) {
						left = append(left, name)
					}
				}
			}
		}
		if left != nil {
			return fmt.Errorf("there are %q", left)
		}
		return nil
	})
}

// warnings are what the API server said of what it took.
type warnings struct {
	sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.said = append(w.said, text)
}

// TestClusterTakesEveryForm has the API server say what it would make of each object, and of a pod of each workload.
func TestClusterTakesEveryForm(t *testing.T) {
	b := inCluster(t, namespace)
	groups, err := restmapper.GetAPIGroupResources(b.Discovery())
	b.must(err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	_, err = b.SchedulingV1().PriorityClasses().Create(t.Context(), priorityClass("high"), metav1.CreateOptions{})
	b.must(err)
	t.Cleanup(func() {
		_ = b.SchedulingV1().PriorityClasses().Delete(context.Background(), "high", metav1.DeleteOptions{})
	})
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	each(t, func(t *testing.T, system, _ string, v values) {
		said := &warnings{}
		config := rest.CopyConfig(b.config)
		config.WarningHandler = said
		typed, err := client.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		untyped, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render(system, system, versions[1], v)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range objects {
			object := &unstructured.Unstructured{}
			plain, err := yaml.ToJSON(text)
			if err := errors.Join(err, object.UnmarshalJSON(plain)); err != nil {
				t.Fatal(err)
			}
			kind := object.GroupVersionKind()
			if kind.Group == "keda.sh" {
				continue // an API server does not know it without KEDA
			}
			m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err == nil {
				_, err = untyped.Resource(m.Resource).Namespace(namespace).Create(t.Context(), object, dry)
			}
			if err != nil {
				t.Errorf("%s %s: %v", kind.Kind, object.GetName(), err)
			}
		}
		for _, w := range open(t, objects).workloads {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.GetName(), Labels: w.pod.Labels, Annotations: w.pod.Annotations}, Spec: w.pod.Spec}
			if _, err := typed.CoreV1().Pods(namespace).Create(t.Context(), pod, dry); err != nil {
				t.Errorf("pod of %s: %v", w.GetName(), err)
			}
		}
		if len(said.said) > 0 {
			t.Errorf("the API server warns: %q", said.said)
		}
	})
}

func priorityClass(name string) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1000}
}

// TestClusterRunsTheReadme runs the first block of commands in README.md with Helm itself.
func TestClusterRunsTheReadme(t *testing.T) {
	b := inCluster(t, "readme")
	text, err := os.ReadFile("README.md")
	b.must(err)
	_, block, _ := strings.Cut(string(text), "\n```sh\n")
	script, rest, _ := strings.Cut(block, "\n```")
	objects, err := render("results", "results", versions[1], values{})
	b.must(err)
	claims := b.volumes(open(t, objects))
	b.run("bash", "-exc", script)
	b.nothingIsLeft("persistentvolumeclaims/" + claims[0])
	last := "kubectl delete pvc " + claims[0]
	if !strings.Contains(rest, last) {
		t.Errorf("README.md does not say %s", last)
	}
	b.run(strings.Fields(last)...)
	b.nothingIsLeft()
}

// TestClusterRunsTheEmbeddedForms installs each on volumes, upgrades it, goes back and uninstalls it.
func TestClusterRunsTheEmbeddedForms(t *testing.T) {
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			b := inCluster(t, system)
			v := maps.Clone(small[system])
			objects, err := render(system, system, versions[1], maps.Clone(v))
			b.must(err)
			r := open(t, objects)
			claims := b.volumes(r)
			text, err := json.Marshal(v)
			b.must(err)
			b.write("values.json", string(text), 0o644)
			chart := "deploy/helm/" + system
			b.run("helm", "install", system, chart, "--values", "values.json", "--wait")
			part := strings.TrimPrefix(r.workloads[0].GetName(), system+"-")
			before := b.podOf(r.workloads[0].GetName())
			b.run("helm", "upgrade", system, chart, "--reuse-values", "--set-string", part+".podAnnotations.again=1", "--wait")
			b.run("kubectl", "rollout", "status", "statefulset/"+r.workloads[0].GetName())
			after := b.podOf(r.workloads[0].GetName())
			if before.UID == after.UID || after.Annotations["again"] != "1" {
				t.Errorf("the upgrade left the pod as it was: %v", after.Annotations)
			}
			b.run("helm", "rollback", system, "1", "--wait")
			b.run("kubectl", "rollout", "status", "statefulset/"+r.workloads[0].GetName())
			if _, there := b.podOf(r.workloads[0].GetName()).Annotations["again"]; there {
				t.Error("the rollback left the pod as it was")
			}
			b.run("helm", "uninstall", system, "--wait")
			var kept []string
			for _, c := range claims {
				kept = append(kept, "persistentvolumeclaims/"+c)
			}
			b.nothingIsLeft(kept...)
			b.run(append([]string{"kubectl", "delete", "pvc"}, claims...)...)
			b.nothingIsLeft()
		})
	}
}

func (b *beside) podOf(set string) *corev1.Pod {
	b.t.Helper()
	pod, err := b.CoreV1().Pods(b.namespace).Get(b.t.Context(), set+"-0", metav1.GetOptions{})
	b.must(err)
	return pod
}
