package cli

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/driver/docker"
	"loadstone/lab/driver/process"
	"loadstone/lab/topology"
)

// What runs services.
const (
	processDriver = "process"
	dockerDriver  = "docker"
)

func driverNames() []string { return []string{processDriver, dockerDriver} }

// running is a system that a driver has brought up.
type running interface {
	Instances() []topology.Instance
	// Failed gets an error for every instance that ends by itself. Down closes it.
	Failed() <-chan error
	Warnings() []string
	Down(ctx context.Context) error
	// Start starts an instance again that has ended, and returns when it is ready.
	Start(ctx context.Context, instance string) (launched time.Time, err error)
}

// bringUp starts the system with the driver that the flags name.
func (a *app) bringUp(ctx context.Context, t *upTarget, f upFlags, p topology.Progress) (running, error) {
	programs := a.programs()
	if f.driver == dockerDriver {
		c := docker.DefaultConfig()
		c.System, c.Guardian, c.Env = t.system, programs.Guardian, a.composeEnv()
		c.LogDir, c.VolumePrefix = t.store.Logs(t.name), dockerVolumes(t.name)
		c.Progress, c.PublishAll = p, f.publishAll
		r, err := docker.Up(ctx, c)
		if err != nil {
			return nil, err // not r, which would be an interface that is not nil
		}
		return r, nil
	}
	c := process.DefaultConfig()
	c.System, c.Self, c.Shim, c.Guardian = t.system, programs.Self, programs.Shim, programs.Guardian
	c.LogDir, c.VolumeDir = t.store.Logs(t.name), t.store.Volumes(t.name)
	c.Env, c.Progress = a.composeEnv(), p
	r, err := process.Up(ctx, c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// dockerVolumes begins the names of a project's volumes in Docker. It is not the
// project's name, so that `docker compose up` of the same file has its own.
func dockerVolumes(name string) string { return "loadstone-" + name }

// removeDockerVolumes deletes the volumes of a project that the docker driver made.
func (a *app) removeDockerVolumes(ctx context.Context, name string) error {
	const within = time.Minute // removing files of gigabytes takes seconds
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	prefix := dockerVolumes(name) + "_"
	list, err := exec.CommandContext(ctx, "docker", "volume", "ls", "--quiet", "--filter", "name="+prefix).Output()
	if err != nil {
		return fmt.Errorf("list the volumes of %s: %w", name, err)
	}
	argv := []string{"volume", "rm"}
	for volume := range strings.FieldsSeq(string(list)) {
		if strings.HasPrefix(volume, prefix) { // the filter finds it anywhere in a name
			argv = append(argv, volume)
		}
	}
	if len(argv) == 2 {
		return nil
	}
	if said, err := exec.CommandContext(ctx, "docker", argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("delete the volumes of %s: %w: %s", name, err, strings.TrimSpace(string(said)))
	}
	return nil
}

func (a *app) completeDriver(cmd *cobra.Command) {
	complete := cobra.FixedCompletions(driverNames(), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("driver", complete); err != nil {
		panic(err) // the flag is there: the caller has just made it
	}
}
