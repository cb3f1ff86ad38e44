package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
)

// scaledObject is what of KEDA's type the charts use.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		PollingInterval int32 `json:"pollingInterval"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string            `json:"type"`
			MetricType string            `json:"metricType,omitempty"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

func (s *scaledObject) DeepCopyObject() runtime.Object { c := *s; return &c }

// decoder takes the types of Kubernetes' API and those above, and refuses what they do not have: a field that is
// misspelt or twice there, or of another type.
var decoder = func() runtime.Decoder {
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		panic(err)
	}
	all.AddKnownTypeWithName(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}, &scaledObject{})
	return serializer.NewCodecFactory(all, serializer.EnableStrict).UniversalDeserializer()
}()

// release is what one chart made.
type release struct {
	all       []named
	workloads []workload
}

type named struct {
	metav1.Object
	typed runtime.Object
	kind  string
}

// workload is what makes pods.
type workload struct {
	named
	pod      corev1.PodTemplateSpec
	selector *metav1.LabelSelector // nil of what makes Jobs
	replicas *int32
}

func (w workload) batch() bool { return w.selector == nil }

func decode(text []byte) (runtime.Object, error) {
	o, _, err := decoder.Decode(text, nil, nil)
	return o, err
}

// open decodes the objects of a release.
func open(t *testing.T, objects [][]byte) *release {
	t.Helper()
	r := &release{}
	for _, text := range objects {
		o, err := decode(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		meta, ok := o.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no name", o)
		}
		n := named{meta, o, o.GetObjectKind().GroupVersionKind().Kind}
		r.all = append(r.all, n)
		switch o := o.(type) {
		case *appsv1.Deployment:
			r.workloads = append(r.workloads, workload{n, o.Spec.Template, o.Spec.Selector, o.Spec.Replicas})
		case *appsv1.StatefulSet:
			w := workload{n, o.Spec.Template, o.Spec.Selector, o.Spec.Replicas}
			for _, c := range o.Spec.VolumeClaimTemplates {
				w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: c.Name})
			}
			r.workloads = append(r.workloads, w)
		case *batchv1.Job:
			r.workloads = append(r.workloads, workload{n, o.Spec.Template, nil, nil})
		case *batchv1.CronJob:
			r.workloads = append(r.workloads, workload{n, o.Spec.JobTemplate.Spec.Template, nil, nil})
		}
	}
	return r
}

// selected are the workloads whose pods have the labels.
func (r *release) selected(s *metav1.LabelSelector) (found []workload) {
	match, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || match.Empty() {
		return nil
	}
	for _, w := range r.workloads {
		if match.Matches(labels.Set(w.pod.Labels)) {
			found = append(found, w)
		}
	}
	return found
}

func (r *release) find(kind, name string) (found named, ok bool) {
	i := slices.IndexFunc(r.all, func(n named) bool { return n.kind == kind && n.GetName() == name })
	if i < 0 {
		return named{}, false
	}
	return r.all[i], true
}

// wrong is all that does not fit in a release: with other objects, or with what every pod of ours is.
func (r *release) wrong() (why []string) {
	seen := map[string]bool{}
	for _, n := range r.all {
		what := n.kind + " " + n.GetName()
		say := func(format string, args ...any) { why = append(why, what+": "+fmt.Sprintf(format, args...)) }
		if seen[what] {
			say("is there twice")
		}
		seen[what] = true
		if n.GetNamespace() != namespace {
			say("its name space is %q", n.GetNamespace())
		}
		most := validation.DNS1123LabelMaxLength
		if n.kind == "CronJob" {
			most -= 11
		}
		if problems := validation.IsDNS1123Label(n.GetName()); len(problems) > 0 || len(n.GetName()) > most {
			say("its name does not do: %v", problems)
		}
		r.fits(n, say)
	}
	for _, w := range r.workloads {
		say := func(format string, args ...any) {
			why = append(why, w.kind+" "+w.GetName()+": "+fmt.Sprintf(format, args...))
		}
		if !w.batch() && len(r.selected(w.selector)) != 1 {
			say("its selector takes the pods of %d", len(r.selected(w.selector)))
		}
		w.wrong(say)
	}
	return why
}

// fits looks at what an object says of others.
func (r *release) fits(n named, say func(string, ...any)) {
	switch o := n.typed.(type) {
	case *corev1.Secret:
		say("a chart makes no secret: it would be kept with the release")
	case *corev1.Service:
		w := r.selected(&metav1.LabelSelector{MatchLabels: o.Spec.Selector})
		if len(w) != 1 {
			say("is for %d", len(w))
			return
		}
		for _, p := range o.Spec.Ports {
			if !w[0].listens(p.TargetPort) {
				say("nobody listens at %s", p.TargetPort.String())
			}
		}
	case *policyv1.PodDisruptionBudget:
		if w := r.selected(o.Spec.Selector); len(w) != 1 || (w[0].replicas != nil && *w[0].replicas < 2) {
			say("is for %d, or for a single pod", len(w))
		}
	case *networkingv1.NetworkPolicy:
		r.lets(o, say)
	case *networkingv1.Ingress:
		for _, rule := range o.Spec.Rules {
			for _, p := range rule.HTTP.Paths {
				if _, ok := r.find("Service", p.Backend.Service.Name); !ok {
					say("there is no service %s", p.Backend.Service.Name)
				}
			}
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		r.scales(o.Spec.ScaleTargetRef.Name, *o.Spec.MinReplicas, o.Spec.MaxReplicas, say)
	case *scaledObject:
		r.scales(o.Spec.ScaleTargetRef.Name, o.Spec.MinReplicaCount, o.Spec.MaxReplicaCount, say)
		if _, ok := r.find("HorizontalPodAutoscaler", n.GetName()); ok {
			say("there is another autoscaler")
		}
	}
}

func (r *release) scales(name string, least, most int32, say func(string, ...any)) {
	n, ok := r.find("Deployment", name)
	if !ok {
		say("there is no Deployment %s", name)
		return
	}
	if n.typed.(*appsv1.Deployment).Spec.Replicas != nil {
		say("an upgrade of %s would set the replicas again", name)
	}
	if least < 1 || most < least {
		say("from %d to %d", least, most)
	}
}

// lets looks at whom a policy names.
func (r *release) lets(o *networkingv1.NetworkPolicy, say func(string, ...any)) {
	w := r.selected(&o.Spec.PodSelector)
	if len(w) != 1 {
		say("is for %d", len(w))
		return
	}
	if !slices.Contains(o.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) || !slices.Contains(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
		say("leaves a direction open")
	}
	for _, in := range o.Spec.Ingress {
		for _, p := range in.Ports {
			if !w[0].listens(*p.Port) {
				say("nobody listens at %s", p.Port)
			}
		}
		r.named(in.From, say)
	}
	for _, out := range o.Spec.Egress {
		if len(out.Ports) == 0 {
			say("everything may go out")
		}
		r.named(out.To, say)
	}
}

func (r *release) named(peers []networkingv1.NetworkPolicyPeer, say func(string, ...any)) {
	for _, p := range peers {
		if p.PodSelector != nil && p.NamespaceSelector == nil && len(r.selected(p.PodSelector)) != 1 {
			say("it names %d", len(r.selected(p.PodSelector)))
		}
	}
}

func (w workload) listens(port intstr.IntOrString) bool {
	for _, p := range w.pod.Spec.Containers[0].Ports {
		if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
			return true
		}
	}
	return false
}

// wrong looks at the pods.
func (w workload) wrong(say func(string, ...any)) {
	s := w.pod.Spec
	switch c := s.SecurityContext; {
	case c == nil || c.RunAsNonRoot == nil || !*c.RunAsNonRoot || c.RunAsUser == nil || *c.RunAsUser == 0 || c.RunAsGroup == nil || *c.RunAsGroup == 0:
		say("it may be root")
	case c.SeccompProfile == nil || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		say("it may call everything of the kernel")
	}
	if s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken {
		say("it has a token of the API server")
	}
	if s.EnableServiceLinks == nil || *s.EnableServiceLinks {
		say("variables of services would be read as settings")
	}
	if s.HostNetwork || s.HostPID || s.HostIPC {
		say("it is in a name space of the node")
	}
	if w.kind == "Deployment" && (len(s.TopologySpreadConstraints) != 1 || s.Affinity == nil) {
		say("its pods may be on one node, or in one zone")
	}
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		volumes[v.Name] = true
		if v.HostPath != nil {
			say("the volume %s is the node's", v.Name)
		}
	}
	for i, c := range slices.Concat(s.Containers, s.InitContainers) {
		told := func(format string, args ...any) { say("container "+c.Name+": "+format, args...) }
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				told("there is no volume %s", m.Name)
			}
		}
		contained(&c, told)
		if i == 0 && !w.batch() {
			w.probed(&c, told)
		}
	}
}

// contained looks at what a container may do and take.
func contained(c *corev1.Container, say func(string, ...any)) {
	switch s := c.SecurityContext; {
	case s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
		say("its root file system can be written")
	case s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
		say("it may get more privileges")
	case s.Privileged != nil && *s.Privileged:
		say("it is privileged")
	case s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0:
		say("it has capabilities")
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		say("it requests no CPU or memory, or has no limit of memory")
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil && strings.Contains(e.Value, "@") && strings.Contains(strings.SplitN(e.Value, "@", 2)[0], ":") &&
			strings.Count(strings.SplitN(e.Value, "@", 2)[0], ":") > 1 {
			say("%s has a password", e.Name)
		}
	}
}

// probed looks at probes, and whether there is time enough to stop.
func (w workload) probed(c *corev1.Container, say func(string, ...any)) {
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startup", c.StartupProbe}, {"liveness", c.LivenessProbe}, {"readiness", c.ReadinessProbe}} {
		if p.probe == nil || p.probe.HTTPGet == nil {
			say("has no %s probe", p.name)
		} else if !w.listens(p.probe.HTTPGet.Port) {
			say("its %s probe asks at %s", p.name, p.probe.HTTPGet.Port.String())
		}
	}
	var leaves int64
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
		leaves = c.Lifecycle.PreStop.Sleep.Seconds
	}
	if took := leaves + int64((seconds(c, "_DRAIN") + stopTimeout).Seconds()); *w.pod.Spec.TerminationGracePeriodSeconds <= took {
		say("it is killed after %d s, and may take %d to stop", *w.pod.Spec.TerminationGracePeriodSeconds, took)
	}
}
