package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"loadstone/internal/project"
)

type downFlags struct {
	dir     string
	volumes bool
	all     bool
}

func (a *app) downCommand() *cobra.Command {
	var f downFlags
	cmd := &cobra.Command{
		Use:     "down [SYSTEM]",
		GroupID: "lab",
		Short:   "Stop a running system",
		Long: `Stop a system that 'loadstone up' started, in the foreground or in the background,
and wait until it has stopped. SYSTEM is its name as shown by 'loadstone ps'; it may
be omitted if only one system is running. A system that is not running is no error.

Volumes are kept for the next 'loadstone up', unless --volumes is given.`,
		Example: `  loadstone down
  loadstone down results
  loadstone down results --volumes   # and delete its data
  loadstone down --all`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeProjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.all && len(args) > 0 {
				return usagef("--all and the name of one system exclude each other")
			}
			return a.down(cmd.Context(), args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", "", "the --dir of 'loadstone up' (default: "+stateUsage+")")
	fl.BoolVar(&f.volumes, "volumes", false, "also delete the named volumes with all their data")
	fl.BoolVar(&f.all, "all", false, "stop all running systems")
	return cmd
}

func (a *app) psCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "ps",
		GroupID: "lab",
		Short:   "List the running systems",
		Example: `  loadstone ps`,
		RunE: func(*cobra.Command, []string) error {
			state, err := a.stateDir(dir)
			if err != nil {
				return err
			}
			return a.ps(project.Store{Dir: state})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the --dir of 'loadstone up' (default: "+stateUsage+")")
	return cmd
}

func (a *app) ps(store project.Store) error {
	alive, err := store.Alive()
	if err != nil {
		return err
	}
	if len(alive) == 0 {
		fmt.Fprintln(a.Stdout, "no system is running")
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "NAME\tSTATE\tSINCE\tDRIVER\tPROCESS\tINSTANCES\tPUBLISHED\n")
	for i := range alive {
		r := &alive[i]
		instances := 0
		for _, s := range r.Services {
			instances += len(s.Addresses)
		}
		var published []string
		for _, p := range sortedPorts(r.Published) {
			published = append(published, reachedAt(p))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", r.Name, r.Phase, r.Since.Format("2 Jan 15:04:05"), r.Driver, r.Owner.PID, instances, strings.Join(published, " "))
	}
	return w.Flush()
}

func (a *app) down(ctx context.Context, args []string, f downFlags) error {
	dir, err := a.stateDir(f.dir)
	if err != nil {
		return err
	}
	store := project.Store{Dir: dir}
	names, err := chooseDown(store, args, f)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		fmt.Fprintln(a.Stdout, "no system is running")
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, a.downOne(ctx, store, name, f.volumes))
	}
	return errors.Join(errs...)
}

// chooseDown are the names of what is to be stopped.
func chooseDown(store project.Store, args []string, f downFlags) ([]string, error) {
	if len(args) == 1 {
		known, err := store.Names()
		if err != nil {
			return nil, err
		}
		if slices.Contains(known, args[0]) {
			return args, nil
		}
		if len(known) == 0 {
			return nil, usagef("there is no system called %q: none was ever up", args[0])
		}
		return nil, usagef("there is no system called %q; %s", args[0], suggest(args[0], "system", known))
	}
	alive, err := store.Alive()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range alive {
		names = append(names, alive[i].Name)
	}
	switch {
	case len(names) > 1 && !f.all:
		return nil, usagef("%d systems are up: %s; name one, or give --all", len(names), strings.Join(names, ", "))
	case len(names) == 0 && f.volumes:
		return nil, usagef("nothing is up; name the system whose volumes are to be deleted")
	}
	return names, nil
}

// downOne tells the process that keeps a system up to stop, and waits until it
// has ended. It stops in order, which takes as long as its services' grace
// periods allow; who does not want to wait may interrupt this.
func (a *app) downOne(ctx context.Context, store project.Store, name string, volumes bool) error {
	r, ok, err := store.Find(name)
	if err != nil {
		return err
	}
	if !ok {
		fmt.Fprintf(a.Stdout, "%s is not running\n", name)
	} else {
		if r.Phase != project.Stopping { // a second signal would end it at once
			if err := r.Signal(syscall.SIGTERM); err != nil {
				return err
			}
		}
		was := r
		for ok && r.Owner == was.Owner || was.Ending() {
			if err := pause(ctx); err != nil {
				return fmt.Errorf("%s is still being stopped by process %s: %w", name, strconv.Itoa(was.Owner.PID), err)
			}
			if r, ok, err = store.Find(name); err != nil {
				return err
			}
		}
		fmt.Fprintf(a.Stdout, "%s is stopped\n", name)
	}
	if !volumes {
		return nil
	}
	r.Name = name // which it lacks if it was never written
	return a.removeVolumes(ctx, store, r)
}

// removeVolumes deletes the volumes of a project that is not up. It holds the
// project, so that no `up` has begun to use them.
func (a *app) removeVolumes(ctx context.Context, store project.Store, r project.Record) error {
	r.Phase = project.Stopping // for whoever wants to start it now
	claim, err := store.Claim(ctx, r)
	if err != nil {
		return fmt.Errorf("the volumes of %s are kept: %w", r.Name, err)
	}
	err = claim.RemoveVolumes()
	if err == nil && r.Driver == dockerDriver { // of the last time
		err = a.removeDockerVolumes(ctx, r.Name)
	}
	if err = errors.Join(err, claim.Release()); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "the volumes of %s are deleted\n", r.Name)
	return nil
}
