package cli

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/driver"
	"loadstone/lab/driver/attach"
	"loadstone/lab/driver/docker"
	"loadstone/lab/driver/kubernetes"
	"loadstone/lab/driver/process"
)

// What runs services.
const (
	processDriver    = "process"
	dockerDriver     = "docker"
	kubernetesDriver = "kubernetes"
	attachDriver     = "attach" // nothing: it runs already
)

func driverNames() []string { return []string{processDriver, dockerDriver, kubernetesDriver} }

// runDrivers are those that an experiment can use.
func runDrivers() []string { return append(driverNames(), attachDriver) }

// runDriver is the driver of an experiment.
func (a *app) runDriver(f runFlags) driver.Driver {
	if f.driver == attachDriver {
		return attach.Driver{Agent: []string{a.Executable, internalName, agentName}, RemoteShell: attach.DefaultRemoteShell(), MayLimit: f.mayLimit}
	}
	return a.driver(f.driver, false, true)
}

// driver is the driver called name. publishAll and anyPort are of the ports of
// containers, see docker.Driver.
func (a *app) driver(name string, publishAll, anyPort bool) driver.Driver {
	switch name {
	case dockerDriver:
		return docker.Driver{Settings: a.driverSettings(), PublishAll: publishAll, AnyPort: anyPort}
	case kubernetesDriver:
		return kubernetes.New(a.driverSettings(), []string{a.Executable, internalName, removerName})
	}
	return a.processes()
}

// sayWhere says which cluster a driver uses, before it does: the current one may not be the
// one that its user has in mind.
func (a *app) sayWhere(d driver.Driver) {
	if k, ok := d.(kubernetes.Driver); ok {
		if where := k.Where(); where != "" {
			fmt.Fprintf(a.Stderr, "cluster: %s (%s names another context)\n", where, kubernetes.ContextVariable)
		}
	}
}

func (a *app) driverSettings() driver.Settings {
	settings := driver.DefaultSettings()
	settings.Env, settings.Guardian = a.composeEnv(), []string{a.Executable, internalName, guardianName}
	return settings
}

func (a *app) processes() process.Driver {
	return process.Driver{Settings: a.driverSettings(), Self: a.Executable, Shim: []string{a.Executable, internalName, shimName}}
}

// unlimitedDriver starts local processes as driver does, and enforces no CPU limit.
func (a *app) unlimitedDriver() driver.Driver {
	d := a.processes()
	d.SysRoot = "/dev/null" // there are no control groups below it
	return d
}

// checkDriver says whether a driver called name is known.
func checkDriver(name string, known []string) error {
	if !slices.Contains(known, name) {
		return usagef("--driver %s: %s", name, suggest(name, "driver", known))
	}
	return nil
}

// restartable is a running system whose instances can be started again.
type restartable interface {
	driver.Running
	// Start starts an instance again that has ended, and returns when it is ready.
	Start(ctx context.Context, instance string) (launched time.Time, err error)
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

// driverFlag adds the flag --driver.
func driverFlag(cmd *cobra.Command, name *string, known []string) {
	cmd.Flags().StringVar(name, "driver", processDriver, "how to run the services: "+strings.Join(known, " or ")+"; process needs no Docker")
	completing(cmd, "driver", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}
