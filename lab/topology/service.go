package topology

import (
	"cmp"
	"net"
	"syscall"
	"time"

	"loadstone/lab/autoscale"
)

// Self is the name by which a Compose file calls this program: as the image of
// a service, and as the program of a command or a health check.
const Self = "loadstone"

// Service is one service of a System, with every variable filled in.
type Service struct {
	Name  string
	Image string // empty if the file gives none
	// Command is what to run. Its program is Self, a name to be found on the
	// PATH, or an absolute path. It is empty if the service runs what is in its
	// image, which is neither Self nor replaced by x-process.
	Command []string
	// Entrypoint and Arguments are what the file says in place of the image's
	// own entrypoint and command, where Command is empty; nil if it does not.
	Entrypoint  []string
	Arguments   []string
	Environment map[string]string
	// Replicas is the number of instances, 0 included.
	Replicas int
	Limits   Limits
	// Optional is x-optional: a driver that has no way to start the service
	// leaves it out and says so.
	Optional bool
	// Resources is x-resources, by name: what beside its CPU can run out.
	Resources []Resource
	// Autoscale is x-autoscale: nil if the number of instances stays.
	Autoscale *autoscale.Policy
	// Restart says what becomes of an instance that ends by itself: Never,
	// OnFailure or Always. It is for who keeps a system up; no driver starts
	// an instance again by itself, because a trial that lost one says nothing.
	Restart string
	// Published are the TCP ports that the host is to offer. What offers them
	// is up to the driver; an experiment needs none.
	Published []Published
	// Aliases are the other names by which services find it in a network of their own:
	// container_name, and those of its networks. Sorted.
	Aliases []string
	// Addresses is x-addresses: where its instances are that run already.
	Addresses []Address
	// Link is x-link: what its instances' network is made worse by.
	Link Link
	// Port is the first TCP port that the service publishes or exposes, as the
	// service itself numbers it; 0 if there is none.
	Port   int
	Labels map[string]string
	// Health is nil if the service has no health check.
	Health *HealthCheck
	// DependsOn is sorted by name.
	DependsOn []Dependency
	// Job is true if another service waits for this one to complete: it is
	// meant to end, with status 0.
	Job     bool
	Volumes []Volume
	User    string // user[:group], names or ids; empty for the lab's own
	// WorkingDir is as the file gives it; empty if it does not.
	WorkingDir string
	// StopSignal is 0 if the image says, that is if Command is empty and the
	// file has none.
	StopSignal syscall.Signal
	// StopGrace is how long the service may take to stop before it is killed.
	StopGrace time.Duration
}

// The values of Service.Restart. Compose's unless-stopped is Always, as nothing
// here is started again that was stopped on purpose.
const (
	Never     = "no"
	OnFailure = "on-failure"
	Always    = "always"
)

// Published is one entry of ports.
type Published struct {
	HostIP   string // as the file gives it; empty for Compose's default
	HostPort int    // 0 for any that is free
	Port     int    // of the service itself
}

// Limits are a service's deploy.resources.limits. Nil is no limit.
type Limits struct {
	CPUs   *float64 // in cores
	Memory *uint64  // in bytes
}

// HealthCheck says when an instance is ready.
type HealthCheck struct {
	// Command is what to run; it ends with status 0 if the instance is healthy.
	Command []string
	// Timeout bounds one run of Command.
	Timeout time.Duration
	// Within is how long after its start an instance may take to be healthy:
	// start_period + retries x interval, which is when Docker would call it
	// unhealthy.
	Within time.Duration
	// Every is start_interval, if the file states one; the pause between runs
	// of Command until it succeeds.
	Every *time.Duration
}

// The conditions of a Dependency, by Compose's names.
const (
	Started   = "service_started"
	Healthy   = "service_healthy"
	Completed = "service_completed_successfully"
)

// Dependency is one entry of depends_on.
type Dependency struct {
	Service   string
	Condition string // Started, Healthy or Completed
}

// Volume is one mount of a service: of a named volume, of a path of the host,
// or of a text in the Compose file (a config or a secret).
type Volume struct {
	Name   string // of a named volume; empty for the others
	Source string // the host's path of a bind mount, a config or a secret
	Text   string // of a config that is in the Compose file itself
	Target string // the path inside the container
}

// MetricsURL is the Prometheus endpoint that its labels name, of an instance at host; empty
// if there are none, or it is nowhere: without a host the address would be one of this machine.
func (s *Service) MetricsURL(host string) string {
	port := s.Labels["prometheus.io/port"]
	if port == "" || host == "" {
		return ""
	}
	return "http://" + net.JoinHostPort(host, port) + cmp.Or(s.Labels["prometheus.io/path"], "/metrics")
}

// Instances is how many instances the System has in all.
func (s *System) Instances() int {
	n := 0
	for i := range s.Services {
		n += s.Services[i].Replicas
	}
	return n
}

// Service finds a service by name.
func (s *System) Service(name string) (Service, bool) {
	for i := range s.Services {
		if s.Services[i].Name == name {
			return s.Services[i], true
		}
	}
	return Service{}, false
}
