// Package driver runs systems: what all drivers can be asked for, and what they
// have in common.
//
// A Driver brings a topology.System up and gives a Running back. Which machines
// it runs on is told by the Running's hosts. What only some drivers can do is asked
// for by assertion by those who need it, such as fault.System.
//
// The common part of drivers is Core, which starts the services when what they
// depend on is there, waits until they are ready, hears of their ends, carries out
// what is done to them on purpose, and stops them in reverse; Instance is one
// instance of it. How an instance is started, stopped or paused is a driver's own
// business, which it hands over as Actions; its processes and their groups stay the
// driver's, too.
package driver

import (
	"context"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// Driver brings systems up.
type Driver interface {
	// Name is what people and records call it, such as docker.
	Name() string
	// Machine describes the machine that systems will run on. Warnings say what it
	// lacks.
	Machine(ctx context.Context) (m host.Machine, warnings []string)
	// Check says whether everything that the system needs to start is there. Its
	// errors say what to do; those that have a place in the Compose file are
	// *topology.MistakeError, and all are joined.
	Check(ctx context.Context, s *topology.System) error
	// Up starts a system and returns when every service is ready: jobs have
	// completed, instances with a health check are healthy, and those without one
	// accept connections on their port, if they have one. When it fails or ctx is
	// cancelled, it has stopped and removed everything before it returns.
	Up(ctx context.Context, c Config) (Running, error)
}

// Running is a system that is up. Its methods may be called from several
// goroutines.
type Running interface {
	// Instances are the instances that run, jobs that have completed left out, by
	// service in dependency order and by index.
	Instances() []topology.Instance
	// Hosts are the machines that they run on, which are the Running's: Down closes
	// them. There are none where only metrics are to be had.
	Hosts() []host.Host
	// Failed gets an *ExitError for every instance that ends by itself while it
	// should run, once each, and other errors of which nobody else would hear. Down
	// closes it.
	Failed() <-chan error
	// Warnings say what about this run is not as the Compose file wants it, in
	// addition to the System's own.
	Warnings() []string
	// Down stops everything and leaves nothing but logs and named volumes. Services
	// stop in reverse dependency order, so that none loses what it depends on while
	// it still works: each gets its stop signal and its grace period, then SIGKILL.
	//
	// When ctx ends, what still runs is killed at once; it is removed nevertheless.
	// What is being done to an instance is cut short: one that is being stopped is
	// killed. Down is called from anywhere and as often as one likes: only the first
	// call works, the others wait for it and return what it returned.
	Down(ctx context.Context) error
}

// Config says what to bring up.
type Config struct {
	System *topology.System
	// LogDir gets <instance>.log for every instance.
	LogDir string
	// VolumeDir and VolumePrefix say which named volumes are used: the next Up with
	// the same ones finds them again, so a seeder can see that its work is done. Local
	// processes have a directory for each in VolumeDir; Docker's begin with
	// VolumePrefix, as PREFIX_data for the volume data, and that must not be the name
	// of a project that somebody runs for real.
	VolumeDir    string
	VolumePrefix string

	Progress topology.Progress
}

// Settings are what the drivers of this machine need for every system.
type Settings struct {
	// Guardian is the argv prefix of a program that calls guardian.Run.
	Guardian []string
	// Env is the lab's environment. Only few variables of it reach instances and
	// commands: a run must not depend on the shell it began in.
	Env map[string]string
	// LogBytes bounds what is kept of each log.
	LogBytes int64
	// ReadyWithin is how long an instance without a health check may take until
	// it accepts connections on its port.
	ReadyWithin time.Duration
	// ProcRoot and SysRoot are /proc and / but in tests.
	ProcRoot, SysRoot string
}

// DefaultSettings has what is the same for every run.
func DefaultSettings() Settings {
	return Settings{
		LogBytes: 8 << 20,
		// A server without a health check that is not up after half a minute
		// most likely listens on another address.
		ReadyWithin: 30 * time.Second,
		ProcRoot:    "/proc",
		SysRoot:     "/",
	}
}
