// Package topology says what runs: Compose files, with a variant's overlay
// merged in, becomes a System of services that a driver can start.
//
// It reads with compose-go, so merging, interpolation and validation are those
// of the Compose Specification. It starts nothing; the drivers below it
// (topology/process) do, and they own the processes.
//
// # What starts
//
// A service of `image: loadstone` (any tag) is this program with the service's
// command. Of any other image a driver has to know how it starts
// (topology/recipe), or the service says in `x-process: [./server, --port, "8080"]`
// what to start; a program with a slash in it is relative to the
// Compose file's directory. x-process replaces image, entrypoint and command, and in an
// overlay it replaces the base's. A program called loadstone is always this
// one, in health checks too.
//
// A service with `x-optional: true` is one that the others can do without, such
// as a dashboard: a driver that cannot start it leaves it out, with a warning.
//
// # How services find each other
//
// By interpolated variables whose defaults are what holds in Docker, so that
// one file serves every driver. The process driver sets them, and exports them
// to the processes as well:
//
//	FOO_BAR_HOST   address of the first instance of service foo-bar: ${FOO_BAR_HOST:-foo-bar}
//	FOO_BAR_HOSTS  addresses of all its instances, separated by commas
//	DATA_VOLUME    directory of the named volume data: ${DATA_VOLUME:-/data}
//	BIND_HOST      the instance's own address: ${BIND_HOST:-0.0.0.0}
//
// Names are in upper case, and what is neither letter nor digit is _. As
// BIND_HOST differs from instance to instance, a driver resolves the System
// once for each of them.
package topology

import "time"

// Progress is called while a driver starts a system, once for each service and
// from several goroutines at a time. Either may be nil.
type Progress struct {
	Starting func(service string) // what it depends on is there
	Ready    func(service string) // or completed, if it is a job
}

// Instance is one running copy of a service.
type Instance struct {
	Service string
	Index   int    // from 1, as Compose counts
	Name    string // "api-1"
	Host    string // its own address
	// OwnNetwork says whether it has a network of its own, and not only a loopback
	// address.
	OwnNetwork bool `json:",omitempty"`
	// Port is the first port that the service publishes or exposes; 0 if none.
	Port int
	// MetricsURL is the Prometheus endpoint that the labels prometheus.io/port
	// and prometheus.io/path of the service name; empty if there are none.
	MetricsURL string
	// Resources are those of its service. A run of an earlier version has none.
	Resources []Resource `json:",omitempty"`
	PID       int
	// LimitCPUs is its CPU share in cores as Compose states it, 0 if it has
	// none; Enforced says whether the kernel holds it to that.
	LimitCPUs float64
	Enforced  bool
	// Unseen says that its machine tells nothing of it: all that is known of it is what it tells itself.
	Unseen    bool `json:",omitempty"`
	StartedAt time.Time
	ReadyAt   time.Time
}
