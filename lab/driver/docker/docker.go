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
	"strconv"
	"sync/atomic"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// Driver runs systems as containers.
type Driver struct {
	// Settings.Env: PATH, HOME, TMPDIR, LANG and what says where Docker is reach the
	// Docker commands. Docker keeps the end of a log that is longer than LogBytes.
	driver.Settings

	// PublishAll has ports without a host ip published at all addresses of the
	// machine, as Docker itself would: systems that are tried on a developer's
	// machine have sample passwords.
	PublishAll bool
	// AnyPort has Docker choose the ports of this machine that are published, so that
	// replicas of a service with a fixed one do not compete for it.
	AnyPort bool
}

// createWithin bounds the making of containers, images pulled and built included: a
// gigabyte of images over 20 Mbit/s takes seven minutes.
const createWithin = 15 * time.Minute

// setup is all that one Up is given.
type setup struct {
	Driver
	driver.Config
}

// Running is a system that is up.
type Running struct {
	driver.Core

	config setup
	name   string // of the run, and of its Compose project
	dir    string // with the document
	docker *client
	engine engine
	guard  *guardian.Guardian

	instances []*instance // in the order of the system's services

	watched chan struct{}      // closed when the watch for ends is over; nil before
	unwatch context.CancelFunc // ends it
	unseen  atomic.Bool        // what containers use cannot be seen from here
}

// Name is docker.
func (d Driver) Name() string { return "docker" }

// Machine is this one, with the limits of its Docker daemon.
func (d Driver) Machine(ctx context.Context) (host.Machine, []string) {
	m, _ := host.This()
	m.LimitsEnforced, m.CgroupVersion = false, 0
	c, err := newClient(d.Env, "")
	if err != nil {
		return m, []string{err.Error()}
	}
	e, err := c.engine(ctx)
	if err != nil {
		return m, []string{err.Error()}
	}
	m.LimitsEnforced = e.LimitsCPU && e.LimitsMemory
	m.CgroupVersion, _ = strconv.Atoi(e.CgroupVersion) // 0 for none
	if !m.LimitsEnforced {
		return m, []string{"CPU and memory limits are not enforced by the Docker daemon, so no component can be told apart by its share"}
	}
	return m, nil
}

// Up starts a system; see driver.Driver.
func (d Driver) Up(ctx context.Context, c driver.Config) (driver.Running, error) {
	r := &Running{config: setup{d, c}}
	if err := r.Up(ctx, r, &d.Settings, c.Progress); err != nil {
		return nil, err
	}
	return r, nil
}

// Check says whether the system can be run here: Docker and Compose are
// installed, the daemon answers, and every service has an image. Whether an image
// can be pulled shows only when Up does it.
func (d Driver) Check(ctx context.Context, s *topology.System) error {
	c, err := newClient(d.Env, "")
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
			errs = append(errs, s.Mistake(fmt.Errorf("service %s: it has no image, only x-process, which is for local processes; give it an `image` or a `build`, or run the system without Docker", service.Name), "services", service.Name, "x-process"))
		}
	}
	if linked := s.Linked(); len(linked) > 0 {
		errs = append(errs, s.Mistake(fmt.Errorf("service %s has an x-link, which is for local processes; remove it, or run the system without Docker", linked[0]), "services", linked[0], "x-link"))
	}
	return errors.Join(errs...)
}

// Hosts is this machine, unless containers cannot be seen from it.
func (r *Running) Hosts() []host.Host {
	if r.unseen.Load() {
		return nil
	}
	var all []host.Host
	for _, h := range r.Core.Hosts() {
		all = append(all, machine{h})
	}
	return all
}

// machine is this one without what passes its loopback interface: containers have networks
// of their own.
type machine struct{ host.Host }
