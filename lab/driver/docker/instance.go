package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// instance is one container.
type instance struct {
	run     *Running
	service topology.Service
	index   int
	name    string
	id      string // of the container

	starting sync.Mutex // held by whoever starts it again

	mu        sync.Mutex // guards all below
	life      *life      // the latest; there is one before it is started
	host      string
	port      int // of its image, if the file states none
	pid       int
	group     *cgroup.Group // nil where it cannot be seen
	started   bool
	startedAt time.Time
	readyAt   time.Time
}

// life is one run of a container, which has more than one if it is started
// again.
type life struct {
	exited chan struct{} // closed when it has ended and its log is fetched
	err    error         // why it ended badly; for after exited is closed
}

func newLife() *life { return &life{exited: make(chan struct{})} }

func (l *life) hasEnded() bool {
	select {
	case <-l.exited:
		return true
	default:
		return false
	}
}

// current is the instance's latest life.
func (in *instance) current() *life {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.life
}

// inspected is what matters of `docker inspect`.
type inspected struct {
	State struct {
		Pid       int       `json:"Pid"`
		OOMKilled bool      `json:"OOMKilled"`
		StartedAt time.Time `json:"StartedAt"`
	} `json:"State"`
	Config struct {
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	} `json:"Config"`
	HostConfig struct {
		NetworkMode string `json:"NetworkMode"`
	} `json:"HostConfig"`
	NetworkSettings struct {
		Networks map[string]struct {
			IPAddress string `json:"IPAddress"`
		} `json:"Networks"`
	} `json:"NetworkSettings"`
}

func (in *instance) inspect(ctx context.Context) (inspected, error) {
	var i inspected
	out, err := in.run.docker.quick(ctx, "inspect", "--type", "container", "--format", "{{json .}}", in.id)
	if err == nil {
		err = json.Unmarshal(out, &i)
	}
	return i, err
}

// host is the address at which the container is reached.
func (i *inspected) host() string {
	for _, name := range slices.Sorted(maps.Keys(i.NetworkSettings.Networks)) {
		if address := i.NetworkSettings.Networks[name].IPAddress; address != "" {
			return address
		}
	}
	if i.HostConfig.NetworkMode == "host" {
		return "127.0.0.1"
	}
	return ""
}

// port is the lowest TCP port that the image exposes, 0 if none.
func (i *inspected) port() int {
	lowest := 0
	for exposed := range i.Config.ExposedPorts {
		number, protocol, _ := strings.Cut(exposed, "/")
		n, err := strconv.Atoi(number)
		if err == nil && protocol == "tcp" && (lowest == 0 || n < lowest) {
			lowest = n
		}
	}
	return lowest
}

// start starts the container and finds out where it is.
func (in *instance) start(ctx context.Context) error {
	in.mu.Lock()
	in.started = true // even if the command fails or is cancelled: it may have come to pass
	in.mu.Unlock()
	if _, err := in.run.docker.quick(ctx, "start", in.id); err != nil {
		if _, failed := errors.AsType[*Error](err); failed {
			in.mu.Lock()
			in.started = false
			in.mu.Unlock()
		}
		return err
	}
	i, err := in.inspect(ctx)
	if err != nil {
		return fmt.Errorf("look at its container: %w", err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.host, in.startedAt = i.host(), i.State.StartedAt
	if in.service.Port == 0 {
		in.port = i.port()
	} else {
		in.port = in.service.Port
	}
	if i.State.Pid == 0 {
		return nil // it has ended already, which the watch reports
	}
	in.openGroup(i.State.Pid)
	return nil
}

// openGroup opens the container's control group. A pid that is not the
// container's is one of another machine: then the daemon is not on this one.
func (in *instance) openGroup(pid int) {
	c := &in.run.config
	group, err := cgroup.Of(c.ProcRoot, c.SysRoot, pid)
	if err == nil && !strings.Contains(group.Paths().CPU, in.id) {
		err = errors.Join(errors.New("the daemon runs on another machine, or in a virtual one"), group.Close())
		group, pid = nil, 0
	}
	in.pid, in.group = pid, group
	if err != nil && !in.life.hasEnded() {
		in.run.warnf("what containers use cannot be seen from here: %v", err)
	}
}

// describe is the instance as the rest of the lab sees it.
func (in *instance) describe() topology.Instance {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := topology.Instance{
		Service: in.service.Name, Index: in.index, Name: in.name, Host: in.host,
		Port: in.port, PID: in.pid, StartedAt: in.startedAt, ReadyAt: in.readyAt,
		Resources: in.service.Resources,
	}
	if cpus := in.service.Limits.CPUs; cpus != nil {
		d.LimitCPUs, d.Enforced = *cpus, in.run.engine.LimitsCPU
	}
	if port := in.service.Labels["prometheus.io/port"]; port != "" {
		path := in.service.Labels["prometheus.io/path"]
		if path == "" {
			path = "/metrics"
		}
		d.MetricsURL = "http://" + net.JoinHostPort(in.host, port) + path
	}
	return d
}

func (in *instance) setReady() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.readyAt = time.Now()
}

func (in *instance) isStarted() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.started
}
