package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/procstat"
)

// instance is one container.
type instance struct {
	driver.Instance

	run *Running
	id  string // of the container
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

// Start starts the container and finds out where it is. Its life begins before,
// because the watch gives the container's next end to it.
func (in *instance) Start(ctx context.Context) error {
	l, before := driver.NewLife(), in.Life()
	place := in.Place()
	in.Begin(l, place, time.Time{})
	if _, err := in.run.docker.quick(ctx, "start", in.id); err != nil {
		// Of a command that was cancelled nobody can say whether it came to pass.
		if _, failed := errors.AsType[*Error](err); failed {
			in.Begin(before, place, time.Time{})
		}
		return err
	}
	i, err := in.inspect(ctx)
	if err != nil {
		return fmt.Errorf("look at its container: %w", err)
	}
	if was := place.Host; was != "" && was != i.host() {
		in.run.Warnf("%s has another address since it was started again: %s, before %s; load that is offered to it directly does not reach it", in.Name, i.host(), was)
	}
	place = driver.Place{Host: i.host(), Port: in.Service.Port, Enforced: in.run.engine.LimitsCPU}
	if place.Port == 0 {
		place.Port = i.port()
	}
	if i.State.Pid != 0 { // else it has ended already, which the watch reports
		place.PID, place.Group = in.openGroup(l, i.State.Pid)
	}
	in.Begin(l, place, i.State.StartedAt)
	if l.HasEnded() {
		return in.LeaveGroup() // which the watch has not seen
	}
	return nil
}

// StartAgain starts the same container, with its files and its log; its address may
// be another one. It is not cut short: of a command that was killed nobody could say
// whether the container runs. It takes tenths of a second, and bounds itself.
func (in *instance) StartAgain(ctx context.Context) error {
	return in.Start(context.WithoutCancel(ctx))
}

// openGroup opens the container's control group. A pid that is not the
// container's is one of another machine: then the daemon is not on this one.
// A process that has ended is in no group of its own either, nor is one that is about to.
func (in *instance) openGroup(l *driver.Life, pid int) (int, *cgroup.Group) {
	c := &in.run.config
	first, _ := guardian.Identify(c.ProcRoot, pid)
	group, err := cgroup.Of(c.ProcRoot, c.SysRoot, pid)
	if err == nil && !strings.Contains(group.Paths().CPU, in.id) {
		err = errors.Join(errors.New("the daemon runs on another machine, or in a virtual one"), group.Close())
		group, pid = nil, 0
	}
	if err != nil && !l.HasEnded() && stays(c.ProcRoot, first) {
		in.run.unseen.Store(true)
		in.run.Warnf("what containers use cannot be seen from here: %v", err)
	}
	return pid, group
}

// stays says whether a process is there, and not on its way out.
func stays(procRoot string, p guardian.Process) bool {
	s, err := procstat.Read(procRoot, p.PID)
	return err == nil && s.Start == p.Start && !s.Over() && !s.Exiting
}

// Variables are none: services find each other by name.
func (in *instance) Variables() map[string]string { return nil }

// Stranger is nobody: a container has its address to itself.
func (*instance) Stranger() string { return "" }

// Unreachable says what to change.
func (in *instance) Unreachable() string {
	return "; let it listen on ${BIND_HOST:-0.0.0.0}, or give it a healthcheck that says when it is ready"
}

// keepLog fetches the log so far.
func (in *instance) keepLog(ctx context.Context) {
	if _, err := in.fetchLog(ctx); err != nil && ctx.Err() == nil {
		in.run.Warnf("%s: %v", in.Name, err)
	}
}
