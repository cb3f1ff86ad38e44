package helm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// outline is what a release says that no other test does: what is started how, and who may reach what.
func (r *release) outline() string {
	var b strings.Builder
	for _, n := range r.all {
		fmt.Fprintf(&b, "%s %s%s\n", n.kind, n.GetName(), hooked(n))
		for _, w := range r.workloads {
			if w.kind == n.kind && w.GetName() == n.GetName() {
				w.outline(&b)
			}
		}
		switch o := n.typed.(type) {
		case *batchv1.CronJob:
			fmt.Fprintf(&b, "  at %s\n", o.Spec.Schedule)
		case *corev1.Service:
			fmt.Fprintf(&b, "  %s %d\n", o.Spec.Type, o.Spec.Ports[0].Port)
		case *autoscalingv2.HorizontalPodAutoscaler:
			fmt.Fprintf(&b, "  %d to %d at %d %% of CPU\n", *o.Spec.MinReplicas, o.Spec.MaxReplicas, *o.Spec.Metrics[0].Resource.Target.AverageUtilization)
		case *scaledObject:
			fmt.Fprintf(&b, "  %d to %d\n", o.Spec.MinReplicaCount, o.Spec.MaxReplicaCount)
			for _, t := range o.Spec.Triggers {
				fmt.Fprintf(&b, "  %s %v\n", t.Type, t.Metadata)
			}
		case *networkingv1.Ingress:
			for _, p := range o.Spec.Rules[0].HTTP.Paths {
				fmt.Fprintf(&b, "  %s %s%s to %s\n", *p.PathType, o.Spec.Rules[0].Host, p.Path, p.Backend.Service.Name)
			}
		case *networkingv1.NetworkPolicy:
			for _, in := range o.Spec.Ingress {
				fmt.Fprintf(&b, "  in %s%s\n", ports(in.Ports), whom(" from ", in.From))
			}
			for _, out := range o.Spec.Egress {
				fmt.Fprintf(&b, "  out %s%s\n", ports(out.Ports), whom(" to ", out.To))
			}
		}
	}
	return b.String()
}

// hooked is when Helm makes an object, if not with all others.
func hooked(n named) string {
	if when := n.GetAnnotations()["helm.sh/hook"]; when != "" {
		return fmt.Sprintf(" (%s, %s)", when, n.GetAnnotations()["helm.sh/hook-weight"])
	}
	return ""
}

func (w workload) outline(b *strings.Builder) {
	for _, c := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
		fmt.Fprintf(b, "  %s: %s\n", c.Name, strings.Join(c.Args, " "))
		slices.SortFunc(c.Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				e.Value = "(" + e.ValueFrom.SecretKeyRef.Name + ", " + e.ValueFrom.SecretKeyRef.Key + ")"
			}
			fmt.Fprintf(b, "    %s=%s\n", e.Name, e.Value)
		}
		if p := c.ReadinessProbe; p != nil {
			fmt.Fprintf(b, "    ready: %s %s\n", p.HTTPGet.Port.String(), p.HTTPGet.Path)
		}
		if l := c.Lifecycle; l != nil {
			fmt.Fprintf(b, "    before SIGTERM: %d s\n", l.PreStop.Sleep.Seconds)
		}
	}
	for _, v := range w.pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			fmt.Fprintf(b, "  of %s:", s.Secret.Name)
			for _, i := range s.Secret.Items {
				fmt.Fprintf(b, " %s", i.Key)
			}
			fmt.Fprintln(b)
		}
	}
}

func ports(all []networkingv1.NetworkPolicyPort) string {
	var s []string
	for _, p := range all {
		s = append(s, p.Port.String())
	}
	return strings.Join(slices.Compact(s), ", ")
}

func whom(word string, peers []networkingv1.NetworkPolicyPeer) string {
	var s []string
	for _, p := range peers {
		switch {
		case p.NamespaceSelector != nil:
			s = append(s, fmt.Sprint(p.NamespaceSelector.MatchLabels))
		case p.PodSelector != nil:
			s = append(s, p.PodSelector.MatchLabels["app.kubernetes.io/component"])
		default:
			s = append(s, p.IPBlock.CIDR)
		}
	}
	if s == nil {
		return ""
	}
	return word + strings.Join(s, ", ")
}
