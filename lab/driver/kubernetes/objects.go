package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/topology"
)

const (
	// instanceLabel and serviceLabel say which instance, and of which service, an object is.
	instanceLabel = "loadstone/instance"
	serviceLabel  = "app.kubernetes.io/name"
	systemLabel   = "app.kubernetes.io/part-of"
	managerLabel  = "app.kubernetes.io/managed-by"
	// labAnnotation says where the lab of a name space is; see driver.LabHost.
	labAnnotation = "loadstone/lab"

	// claimSize is what a claim asks for: Compose's volumes have no size, and a claim has
	// to have one.
	claimSize = 10 << 30
)

// Objects are what a system becomes in a name space of its own. They are made by
// kind in the order of the fields; what depends on what among pods and jobs is the
// driver's to wait for.
type Objects struct {
	Namespace  *corev1.Namespace
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	Claims     []*corev1.PersistentVolumeClaim
	Services   []*corev1.Service
	// Pods are the instances of services, Jobs those of services that are meant to end,
	// each by service in dependency order and by index.
	Pods []*corev1.Pod
	Jobs []*batchv1.Job

	// Warnings say what of the file has no counterpart.
	Warnings []string
}

// Map makes the objects of a system for a name space. It asks nobody: files that the
// system mounts are read, and nothing else. Its errors are mistakes with their places in
// the Compose file, all of them joined.
func Map(ctx context.Context, s *topology.System, namespace, lab string) (*Objects, error) {
	project, err := s.Project(ctx)
	if err != nil {
		return nil, err
	}
	m := mapping{system: s, project: project, namespace: namespace, claims: map[string]string{}}
	m.Namespace = &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{managerLabel: topology.Self, systemLabel: label(s.Name)},
			Annotations: map[string]string{labAnnotation: lab},
		},
	}
	m.mapClaims()
	for i := range s.Services {
		if service := &s.Services[i]; service.Replicas > 0 {
			m.mapService(service)
		}
	}
	return &m.Objects, errors.Join(m.errs...)
}

// mapping is one call of Map.
type mapping struct {
	Objects

	system    *topology.System
	project   *types.Project
	namespace string
	claims    map[string]string // name of a claim by that of the volume
	errs      []error
}

// mistakef adds what is wrong with a service, at a key of it.
func (m *mapping) mistakef(s *topology.Service, key, format string, args ...any) {
	err := fmt.Errorf("service %s: %w", s.Name, fmt.Errorf(format, args...))
	path := []string{"services", s.Name}
	if key != "" {
		path = append(path, key)
	}
	m.errs = append(m.errs, m.system.Mistake(err, path...))
}

func (m *mapping) warnf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(m.Warnings, text) {
		m.Warnings = append(m.Warnings, text)
	}
}

// meta is the metadata of an object of the system or, if s is given, of a service.
func (m *mapping) meta(name string, s *topology.Service) metav1.ObjectMeta {
	labels := map[string]string{managerLabel: topology.Self, systemLabel: label(m.system.Name)}
	if s != nil {
		labels[serviceLabel] = s.Name
	}
	return metav1.ObjectMeta{Name: name, Namespace: m.namespace, Labels: labels}
}

// mapClaims makes a claim for each volume. Two volumes whose claims would have one name
// would have one variable, too, which topology refuses.
func (m *mapping) mapClaims() {
	for _, volume := range m.system.Volumes {
		name := strings.Trim(strings.Map(func(r rune) rune {
			switch {
			case r >= 'A' && r <= 'Z':
				return r - 'A' + 'a'
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			default:
				return '-'
			}
		}, volume), "-")
		if name == "" {
			err := fmt.Errorf("volume %s: there is no letter or digit in its name, so it can have no claim; give it another one", volume)
			m.errs = append(m.errs, m.system.Mistake(err, "volumes", volume))
			continue
		}
		m.claims[volume] = name
		m.Claims = append(m.Claims, &corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: m.meta(name, nil),
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(claimSize, resource.BinarySI)}},
			},
		})
	}
}

// nameForm is that of a name that a Service may have; the rest of a pod's name is an
// index.
var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,57}[a-z0-9])?$`)

func (m *mapping) mapService(s *topology.Service) {
	c := m.project.Services[s.Name]
	if !nameForm.MatchString(s.Name) {
		m.mistakef(s, "", "in Kubernetes a service's name has lower-case letters, digits and - only, and begins with a letter; rename it, since others find it by its name")
		return
	}
	if s.Image == "" {
		m.mistakef(s, "", "it has no image, and Kubernetes starts images alone; give it an `image` that the nodes have or can pull")
		return
	}
	if s.Link != (topology.Link{}) {
		m.mistakef(s, "x-link", "it has an x-link, which is for local processes; remove it, or run the system without a cluster")
	}
	template := m.template(s, &c)
	if !s.Job {
		m.Services = append(m.Services, m.service(s, &c))
	}
	for i := range s.Replicas {
		name := s.Name + "-" + strconv.Itoa(i+1)
		meta := m.meta(name, s)
		meta.Labels[instanceLabel] = name
		if s.Job {
			m.Jobs = append(m.Jobs, job(meta, template))
			continue
		}
		m.Pods = append(m.Pods, &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta, Spec: *template.DeepCopy(),
		})
	}
}

// job is tried once: an error is the user's to see, not to be covered by a second try.
func job(meta metav1.ObjectMeta, template *corev1.PodSpec) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32),
			Template:     corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(meta.Labels)}, Spec: *template.DeepCopy()},
		},
	}
}

// service is the name by which others find a service, from the start of its instances as
// with Compose. With ports it has an address of its own, whose connections go to any of the
// instances; without any, the name has all of their addresses.
func (m *mapping) service(s *topology.Service, c *types.ServiceConfig) *corev1.Service {
	spec := corev1.ServiceSpec{Selector: map[string]string{serviceLabel: s.Name}, PublishNotReadyAddresses: true}
	for _, p := range ports(s, c) {
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("%s-%d", strings.ToLower(string(p.Protocol)), p.ContainerPort), Protocol: p.Protocol, Port: p.ContainerPort})
	}
	if len(spec.Ports) == 0 {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: m.meta(s.Name, s), Spec: spec}
}

// ports are those that the file publishes or exposes, and that of the metrics.
func ports(s *topology.Service, c *types.ServiceConfig) []corev1.ContainerPort {
	var all []corev1.ContainerPort
	add := func(port int64, protocol string) {
		p := corev1.ContainerPort{ContainerPort: int32(port), Protocol: corev1.ProtocolTCP}
		if protocol == "udp" {
			p.Protocol = corev1.ProtocolUDP
		}
		if port > 0 && port <= 65535 && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	for _, p := range c.Ports {
		add(int64(p.Target), p.Protocol)
	}
	for _, text := range append(slices.Clone([]string(c.Expose)), s.Labels["prometheus.io/port"]) {
		number, protocol, _ := strings.Cut(text, "/")
		if port, err := strconv.ParseInt(number, 10, 32); err == nil { // compose-go has checked expose
			add(port, protocol)
		}
	}
	return all
}

var notOfLabel = regexp.MustCompile(`[^-A-Za-z0-9_.]+`)

// label is a name in the form of a label's value.
func label(name string) string {
	text := notOfLabel.ReplaceAllString(name, "-")
	return strings.Trim(text[:min(len(text), 63)], "-_.")
}
