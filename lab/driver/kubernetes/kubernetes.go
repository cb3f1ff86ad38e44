// Package kubernetes runs a topology.System in a Kubernetes cluster, with the same
// contract as packages process and docker: Up starts the services in dependency order and
// returns when all of them are ready, Down stops them, and in between nothing is done but
// to wait.
//
// # What a system becomes
//
// A name space of its own, in which each instance is a pod, each service that is meant to
// end a Job, each name a Service, each named volume a claim, and each file that is mounted
// from beside the Compose file a ConfigMap or a Secret; see Map. There are no Deployments:
// a controller would start an instance again by itself, under another name, and a trial that
// lost one says nothing. Here as with the other drivers api-2 is one instance, which is
// killed and started again by name, and whose end is news.
//
// The driver makes a pod when what it depends on is there, and looks itself whether it is
// healthy, with the file's health check, until it is; nobody looks after that, because a
// check during load takes CPU from what is measured.
//
// # What differs from containers of Docker
//
// Images are taken by name: the nodes have them or pull them. Instances are reached by the
// addresses of their pods, so the lab has to be where these lead somewhere: on a node of the
// cluster, or in a pod. Connections to a service's name are spread over its instances by the
// cluster, one by one. A file that is mounted is copied, and cannot be written. Volumes last
// as long as the name space, that is the run. CPU is counted in thousandths of a core, and
// limited over the nodes' period, which is 100 ms unless they are told otherwise.
//
// Figures of CPU and memory come from the pods' control groups: here, where the nodes are this
// machine, and otherwise from agents (package agent) in pods on the nodes that the others
// are on. Where neither can be had, there is no host, and a run has metrics alone; nothing is paused
// then, and a pod is killed by deleting it. What
// is started again is another pod, with another address. CPU limits are changed by
// resizing pods in place, from the start of load on and for perturbation, for which the
// cluster has to have Kubernetes 1.33.
//
// # Nothing is left behind
//
// The name space is called loadstone-PID-START-RANDOM after the lab, and everything in it
// belongs to one object, so that deleting either deletes all. Down does it; when the lab is
// killed or the cluster does not answer, its guardian does it (package driver/guardian), for a quarter of an hour; when that
// is killed too, the next Up does.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// Driver runs systems as pods. One of New has read once where the cluster is: what is edited in
// the files of KUBECONFIG meanwhile changes neither where the next trial is nor what is deleted.
type Driver struct {
	// Settings.Env: KUBECONFIG, or HOME for .kube/config in it, and ContextVariable say where
	// the cluster is.
	driver.Settings

	// Remover is the argv prefix of a program that calls Remove with the name space that
	// follows it.
	Remover []string

	once func() (*cluster, error) // nil to read it each time

	// In tests: the cluster in place of the one that Env leads to, and how long it may not
	// answer in place of lostAfter.
	cluster   *cluster
	lostAfter time.Duration
}

// setup is all that one Up is given.
type setup struct {
	Driver
	driver.Config
}

// Running is a system that is up.
type Running struct {
	driver.Core

	config  setup
	name    string // of the run, and of its name space
	cluster *cluster
	guard   *guardian.Guardian
	machine *machine
	made    bool // whether there is something of it in the cluster
	owner   *metav1.OwnerReference

	instances []*instance // in the order of the system's services
	byName    map[string]*instance

	watched chan struct{}      // closed when the watch is over; nil before
	unwatch context.CancelFunc // ends it
	ends    sync.WaitGroup     // of what follows logs and handles ends
	isUp    atomic.Bool
	unseen  atomic.Pointer[error] // why what pods use cannot be seen from here; nil if it can
	agents  *agents               // that watch them, then; nil for none
}

// New returns a driver with these fields.
func New(settings driver.Settings, remover []string) Driver {
	return Driver{
		Settings: settings, Remover: remover,
		once: sync.OnceValues(func() (*cluster, error) { return connect(settings.Env) }),
	}
}

// Name is kubernetes.
func (d Driver) Name() string { return "kubernetes" }

func (d Driver) connect() (*cluster, error) {
	if d.cluster != nil {
		return d.cluster, nil
	}
	if d.once != nil {
		return d.once()
	}
	return connect(d.Env)
}

// Where names the cluster, for people; empty if none can be found.
func (d Driver) Where() string {
	c, err := d.connect()
	if err != nil {
		return ""
	}
	if c.context == "" {
		return c.server
	}
	return fmt.Sprintf("%s at %s", c.context, c.server)
}

// Machine is this one if a node of the cluster is; otherwise the nodes together.
func (d Driver) Machine(ctx context.Context) (host.Machine, []string) {
	c, err := d.connect()
	if err != nil {
		return host.Machine{}, []string{err.Error()}
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return host.Machine{}, []string{err.Error()}
	}
	return machineOf(nodes, host.Boot(d.ProcRoot))
}

// Check says whether the system can be run here: the cluster answers, everything that
// the file says has a counterpart, and what is scaled by its CPU is seen. Whether an image can be pulled, and whether there is
// room, shows only when Up does it.
func (d Driver) Check(ctx context.Context, s *topology.System) error {
	c, err := d.connect()
	if err == nil {
		_, err = c.version(ctx)
	}
	if len(s.Services) == 0 { // of no system: whether there is a cluster
		return err
	}
	_, errMap := Map(ctx, s, "check", "")
	if err == nil {
		err = d.checkScaled(ctx, s)
	}
	return errors.Join(err, errMap)
}

// Up starts a system; see driver.Driver.
func (d Driver) Up(ctx context.Context, c driver.Config) (driver.Running, error) {
	r := &Running{config: setup{d, c}, byName: map[string]*instance{}}
	if err := r.Up(ctx, r, &d.Settings, c.Progress); err != nil {
		return nil, err
	}
	if err := r.watchByAgents(ctx); err != nil {
		return nil, errors.Join(err, r.Down(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// Instances are those of Running. Some of them may be unseen by the agents.
func (r *Running) Instances() []topology.Instance {
	all := r.Core.Instances()
	for i := range all {
		all[i].Unseen = r.agents != nil && r.byName[all[i].Name].byAgent() == nil
	}
	return all
}

// Hosts is the machine that the pods run on, or their nodes as one; none if they cannot be seen.
func (r *Running) Hosts() []host.Host {
	switch {
	case r.agents != nil:
		return []host.Host{r.agents}
	case r.unseen.Load() != nil:
		return nil
	}
	return []host.Host{r.machine}
}
