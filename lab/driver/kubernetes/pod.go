package kubernetes

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/topology"
)

// mainContainer is the name of the only container of each pod.
const mainContainer = "main"

// selfUser is the user and group of the image of this program; see deploy/Dockerfile.
const selfUser int64 = 65532

// template is a service's pod. It is not restarted: whether an instance that has ended
// is started again is for the lab, to which its end is news.
func (m *mapping) template(s *topology.Service, c *types.ServiceConfig) *corev1.PodSpec {
	no := false
	main := corev1.Container{
		Name: mainContainer, Image: s.Image, ImagePullPolicy: pullPolicy(c.PullPolicy),
		Command: escaped(c.Entrypoint), Args: escaped(c.Command), WorkingDir: s.WorkingDir,
		Env: environment(s.Environment), Ports: ports(s, c), Resources: resources(s.Limits, 1),
		SecurityContext: m.security(c),
		Stdin:           c.StdinOpen, TTY: c.Tty,
		// Its end is told in its log; see driver.ExitError.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	spec := &corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(seconds(s.StopGrace)),
		// Nothing of the cluster is put into the instance but what the file says: no
		// credentials, and no variables such as API_PORT, which may be its own.
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		HostNetwork: c.NetworkMode == "host", HostPID: c.Pid == "host", Hostname: c.Hostname,
		HostAliases: hostAliases(c), SecurityContext: m.podSecurity(s, c),
	}
	spec.Volumes, main.VolumeMounts = m.mounts(s, c)
	if s.Replicas > 1 {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{serviceLabel: s.Name}},
		}}
	}
	if c.StopSignal != "" && strings.TrimPrefix(c.StopSignal, "SIG") != "TERM" {
		m.warnf("service %s: Kubernetes stops it with the signal that its image says, SIGTERM if none, not with stop_signal %s", s.Name, c.StopSignal)
	}
	if len(c.Devices) > 0 {
		m.warnf("service %s: its devices are not there in Kubernetes", s.Name)
	}
	spec.Containers = []corev1.Container{main}
	return spec
}

func pullPolicy(compose string) corev1.PullPolicy {
	switch compose {
	case types.PullPolicyAlways:
		return corev1.PullAlways
	case types.PullPolicyNever:
		return corev1.PullNever
	default: // as with Compose, for tags of latest too
		return corev1.PullIfNotPresent
	}
}

// escaped doubles the dollar signs of what Kubernetes would fill in: $(NAME).
func escaped(argv []string) []string {
	var list []string
	for _, arg := range argv {
		list = append(list, strings.ReplaceAll(arg, "$(", "$$("))
	}
	return list
}

func environment(env map[string]string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(env[name], "$(", "$$(")})
	}
	return list
}

// resources are limits as limits and as requests, so that no node promises more than it
// has. factor scales the CPU limit alone; what is requested is at most that.
//
// Memory is requested to one byte below its limit: where all requests equal all limits, a
// pod is of the class Guaranteed, and no change of its limits may take it in or out of that class.
func resources(l topology.Limits, factor float64) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{}
	set := func(name corev1.ResourceName, limit, request resource.Quantity) {
		if r.Limits == nil {
			r.Limits, r.Requests = corev1.ResourceList{}, corev1.ResourceList{}
		}
		r.Limits[name], r.Requests[name] = limit, request
	}
	if l.CPUs != nil {
		set(corev1.ResourceCPU, milli(*l.CPUs*factor), milli(*l.CPUs*min(factor, 1)))
	}
	if l.Memory != nil {
		bytes := int64(min(*l.Memory, math.MaxInt64))
		set(corev1.ResourceMemory, *resource.NewQuantity(bytes, resource.BinarySI), *resource.NewQuantity(max(bytes-1, 1), resource.BinarySI))
	}
	return r
}

// milli is a number of cores as Kubernetes counts them, in thousandths.
func milli(cores float64) resource.Quantity {
	return *resource.NewMilliQuantity(max(int64(math.Round(1000*cores)), 1), resource.DecimalSI)
}

// seconds are those of d, rounded up, one at least: Kubernetes counts in whole ones.
func seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

func hostAliases(c *types.ServiceConfig) []corev1.HostAlias {
	var all []corev1.HostAlias
	for _, name := range slices.Sorted(maps.Keys(c.ExtraHosts)) {
		for _, address := range c.ExtraHosts[name] {
			all = append(all, corev1.HostAlias{IP: address, Hostnames: []string{name}})
		}
	}
	return all
}

func (m *mapping) security(c *types.ServiceConfig) *corev1.SecurityContext {
	s := &corev1.SecurityContext{}
	used := false
	if c.Privileged {
		s.Privileged, used = &c.Privileged, true
	}
	if c.ReadOnly {
		s.ReadOnlyRootFilesystem, used = &c.ReadOnly, true
	}
	if len(c.CapAdd)+len(c.CapDrop) > 0 {
		s.Capabilities, used = &corev1.Capabilities{Add: capabilities(c.CapAdd), Drop: capabilities(c.CapDrop)}, true
	}
	if !used {
		return nil
	}
	return s
}

func capabilities(names []string) []corev1.Capability {
	var all []corev1.Capability
	for _, name := range names {
		all = append(all, corev1.Capability(strings.TrimPrefix(name, "CAP_")))
	}
	return all
}

// podSecurity is who the instance is. What is mounted belongs to its group, so that it can
// write there; of an image only this program's own is known.
func (m *mapping) podSecurity(s *topology.Service, c *types.ServiceConfig) *corev1.PodSecurityContext {
	p := &corev1.PodSecurityContext{}
	user, group, _ := strings.Cut(c.User, ":")
	p.RunAsUser, p.RunAsGroup = m.id(s, "user", user), m.id(s, "user", group)
	for _, name := range c.GroupAdd {
		if id := m.id(s, "group_add", name); id != nil {
			p.SupplementalGroups = append(p.SupplementalGroups, *id)
		}
	}
	switch {
	case p.RunAsGroup != nil:
		p.FSGroup = p.RunAsGroup
	case p.RunAsUser != nil:
		p.FSGroup = p.RunAsUser
	case s.Image == topology.Self || strings.HasPrefix(s.Image, topology.Self+":"):
		p.FSGroup = new(selfUser)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sysctls)) {
		p.Sysctls = append(p.Sysctls, corev1.Sysctl{Name: name, Value: c.Sysctls[name]})
	}
	if p.RunAsUser == nil && p.FSGroup == nil && p.SupplementalGroups == nil && p.Sysctls == nil {
		return nil
	}
	return p
}

// id is the number of a user or group, nil for none.
func (m *mapping) id(s *topology.Service, key, text string) *int64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		m.mistakef(s, key, "Kubernetes knows users and groups by number only; write that of %q in the image", text)
		return nil
	}
	return &n
}
