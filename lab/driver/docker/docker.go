// Package docker runs a topology.System as containers, with the same contract
// as package process: Up starts the services in dependency order and returns
// when all of them are ready, Down stops them, and in between nothing is done
// but to wait.
//
// # What Docker Compose does, and what it does not
//
// `docker compose`, or else `docker-compose`, makes the network, the volumes and
// the containers, with one command for all of them. It is given one file: the
// document that compose-go has merged, interpolated and resolved. So the driver
// runs what the lab has checked, whichever Compose is there; and version 1.29,
// which most distributions have, refuses much that newer files may say (`name`,
// `start_interval`, `required`), which the document does not need.
//
// The driver starts the containers itself, one after the other as their
// dependencies are ready, and runs their health checks itself, with `docker
// exec`, until they are. Docker would go on running them while load is offered:
// a check is a process whose CPU is taken from the system that is being measured.
// For the same reason no container is restarted but by Start, and logs are fetched when an
// instance is ready and when it ends, not followed: a client for each container
// would be a process of 30 MB that is busy whenever the instance writes a line.
//
// # What differs from processes
//
// The variables of package topology are not set, so that the file's defaults
// hold: services find each other by name. Instances are reached by the address
// of their container, so the Docker daemon has to be on this machine, and on
// Linux. Ports are published as the file says, but those without a host ip at
// 127.0.0.1 alone, as the process driver has it. CPU limits are Docker's, over
// periods of 100 ms, where the process driver has 20 ms (see
// cgroup.DefaultPeriod): the tail of latencies is not comparable between the
// two drivers. Grace periods are rounded up to whole seconds.
//
// # Nothing is left behind
//
// Every run is a Compose project of its own, called loadstone-PID-START-RANDOM
// with the lab's pid and start time. Down removes its containers, its network
// and its unnamed volumes; named volumes stay. When the lab is killed, its
// guardian does it (package driver/guardian); when that is killed too, the
// next Up does.
package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// Config says what to run and how.
type Config struct {
	System *topology.System

	// Guardian is the argv prefix of a program that calls guardian.Run.
	Guardian []string

	// LogDir gets <instance>.log for every instance.
	LogDir string
	// VolumePrefix begins the names that named volumes have in Docker:
	// PREFIX_data for the volume data. They stay, and are used again by the next
	// Up with the same prefix, so a seeder can see that its work is done. It
	// must not be the name of a project that somebody runs for real.
	VolumePrefix string

	// Env is the lab's environment. PATH, HOME, TMPDIR, LANG and what says
	// where Docker is reach the Docker commands, nothing else.
	Env map[string]string

	// PublishAll has ports without a host ip published at all addresses of the
	// machine, as Docker itself would: systems that are tried on a developer's
	// machine have sample passwords.
	PublishAll bool

	// LogBytes bounds each log. Docker keeps the end of what is longer.
	LogBytes int64
	// ReadyWithin is how long an instance without a health check may take until
	// it accepts connections on its port.
	ReadyWithin time.Duration
	// CreateWithin bounds the making of containers, images pulled and built
	// included.
	CreateWithin time.Duration

	Progress topology.Progress

	// ProcRoot and SysRoot are /proc and / but in tests.
	ProcRoot, SysRoot string
}

// DefaultConfig has what is the same for every run.
func DefaultConfig() Config {
	return Config{
		LogBytes:    8 << 20,
		ReadyWithin: 30 * time.Second, // as the process driver
		// A gigabyte of images over 20 Mbit/s is seven minutes.
		CreateWithin: 15 * time.Minute,
		ProcRoot:     "/proc",
		SysRoot:      "/",
	}
}

// leastLogBytes is what two log files of Docker's smallest sensible size take.
const leastLogBytes = 64 << 10

// Validate returns all that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("docker driver: "+what))
		}
	}
	need(c.System != nil, "no system is given")
	need(len(c.Guardian) > 0, "no guardian is given")
	need(c.LogDir != "", "no directory for logs is given")
	need(volumeName.MatchString(c.VolumePrefix), fmt.Sprintf("the prefix of volumes %q is no name of a volume; write letters, digits, _ . and -", c.VolumePrefix))
	need(c.LogBytes >= leastLogBytes, fmt.Sprintf("%d bytes of log is less than %d", c.LogBytes, leastLogBytes))
	need(c.ReadyWithin > 0, fmt.Sprintf("%v to be ready is not above 0", c.ReadyWithin))
	need(c.CreateWithin > 0, fmt.Sprintf("%v to make containers is not above 0", c.CreateWithin))
	need(c.ProcRoot != "" && c.SysRoot != "", "no roots of proc and of the file system are given")
	return errors.Join(errs...)
}

// Running is a system that is up. Its methods may be called from several
// goroutines.
type Running struct {
	config Config
	name   string // of the run, and of its Compose project
	dir    string // with the document
	docker *client
	engine engine
	guard  *guardian.Guardian

	order     driver.Order
	instances []*instance // in the order of the system's services

	watched chan struct{}      // closed when the watch for ends is over; nil before
	unwatch context.CancelFunc // ends it
	failed  chan error
	abort   context.CancelCauseFunc // of Up; harmless later

	acts *driver.Acts

	mu       sync.Mutex // guards all below
	warnings []string

	down    sync.Once
	downErr error
}

// Up starts the system and returns when every service is ready: jobs have
// completed, instances with a health check are healthy, and those without one
// accept connections on their port, if they have one. When it fails or ctx is
// cancelled, it has stopped and removed everything before it returns.
func Up(ctx context.Context, c Config) (*Running, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	up, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r := &Running{config: c, abort: abort, acts: driver.NewActs(ctx)}
	err := r.prepare(up)
	if err == nil {
		err = r.startAll(up)
	}
	if err == nil {
		err = context.Cause(up) // an instance ended after it was ready
	}
	if err != nil {
		// ctx may be what ended; stopping needs its own time.
		return nil, errors.Join(err, r.Down(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// Check says whether the system can be run here: Docker and Compose are
// installed, the daemon answers, and every service has an image. Its errors say
// what to do. Whether an image can be pulled shows only when Up does it.
func Check(ctx context.Context, s *topology.System, env map[string]string) error {
	c, err := newClient(env, "")
	if err != nil {
		return err
	}
	_, err = c.engine(ctx)
	return errors.Join(err, checkImages(s))
}

func checkImages(s *topology.System) error {
	var errs []error
	for i := range s.Services {
		service := &s.Services[i]
		// An image is empty also if the service is built; then it has no command
		// of x-process.
		if service.Image == "" && len(service.Command) > 0 && service.Replicas > 0 {
			errs = append(errs, fmt.Errorf("service %s: it has no image, only x-process, which is for local processes; give it an `image` or a `build`, or run the system without Docker", service.Name))
		}
	}
	return errors.Join(errs...)
}

// Instances are the instances that run, jobs that have completed left out, by
// service in dependency order and by index.
func (r *Running) Instances() []topology.Instance {
	var all []topology.Instance
	for _, in := range r.instances {
		if !in.service.Job {
			all = append(all, in.describe())
		}
	}
	return all
}

// Group is the control group of the container called name; nil if there is no
// such instance or its group cannot be seen from here. It is the Running's: read
// it, change its CPU share, but leave closing it to Down. A container that is
// started again gets another one, and this one is closed.
func (r *Running) Group(name string) *cgroup.Group {
	in := r.instance(name)
	if in == nil {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.group
}

// CgroupVersion is 1 or 2, or 0 where containers' groups cannot be seen.
func (r *Running) CgroupVersion() int {
	for _, in := range r.instances {
		if g := r.Group(in.name); g != nil {
			return g.Paths().Version
		}
	}
	return 0
}

// Failed gets a *process.ExitError for every instance that ends while it should
// run, once each, and an error if the daemon is lost. Down closes it.
func (r *Running) Failed() <-chan error { return r.failed }

// Warnings say what about this run is not as the Compose file wants it, in
// addition to the System's own.
func (r *Running) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warnings)
}

func (r *Running) warnf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.warnings, text) { // replicas share theirs
		r.warnings = append(r.warnings, text)
	}
}
