package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"loadstone/internal/project"
	"loadstone/lab/topology"
)

type upFlags struct {
	driver     string
	dir        string
	name       string
	profiles   []string
	detach     bool
	publishAll bool
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:     "up SYSTEM|COMPOSE.yaml|EXPERIMENT.yaml [VARIANT]",
		GroupID: "lab",
		Short:   "Start a system and keep it running",
		Long: `Start a system and keep it running: one that this program ships with, by its name;
your own, by its Compose file; or a variant of an experiment, by default the first.
Ctrl-C stops it, and so does 'loadstone down' from another terminal.

Profiles are those of --profile and of COMPOSE_PROFILES, from the environment or from
the .env beside the Compose file, as with docker compose. For an experiment only
--profile counts, so that the running system is the one that 'loadstone run' measures.

Published ports are opened on 127.0.0.1, or on the address that the Compose file
gives; with --publish-all, on all addresses. Without Docker, Loadstone forwards the
connections itself, so services see every client as 127.0.0.1. The system results
then counts all clients as one in its limits per address; for students on many
machines use --driver docker --publish-all.

Exit status:
   0  stopped on request, or already running
   1  failed, or a service ended
   2  an error in the arguments`,
		Example: `  # exam results, with PostgreSQL, Redis, NGINX and monitoring, on this machine
  loadstone up results

  # the embedded form in the background; list what is running; stop it
  loadstone up results embedded --detach
  loadstone ps
  loadstone down results-embedded

  # six patterns for high load, each can be switched on and off
  loadstone up patterns embedded

  # your own system, without its monitoring; a variant of an experiment
  COMPOSE_PROFILES= loadstone up ./compose.yaml
  loadstone up system/results/experiments/embedded.yaml snapshot`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.target(cmd.Context(), args, f)
			if err != nil {
				return err
			}
			if f.detach {
				return a.upDetached(cmd.Context(), t, args, f)
			}
			return a.upAttached(cmd.Context(), t, f)
		},
	}
	fl := cmd.Flags()
	driverFlag(cmd, &f.driver, driverNames())
	fl.StringVar(&f.dir, "dir", "", "directory for records, logs and volumes of running systems (default: "+stateUsage+")")
	fl.StringVarP(&f.name, "project-name", "p", "", "name of the system (default: the Compose project's name)")
	fl.StringSliceVar(&f.profiles, "profile", nil, "enable a profile of the Compose file, in addition to COMPOSE_PROFILES")
	fl.BoolVarP(&f.detach, "detach", "d", false, "wait until it is ready, then leave it running in the background")
	fl.BoolVar(&f.publishAll, "publish-all", false, "open published ports on all addresses of this machine, so that other machines can reach them")
	return cmd
}

// upTarget is what is to be kept up.
type upTarget struct {
	said    string // as one would say it: "results embedded"
	variant string // of an experiment
	name    string // of the project
	dir     string // that was given; empty for the default
	system  *topology.System
	store   project.Store
}

// target finds out what args mean and checks all of it, before anything starts.
func (a *app) target(ctx context.Context, args []string, f upFlags) (*upTarget, error) {
	if err := checkDriver(f.driver, driverNames()); err != nil {
		return nil, err
	}
	dir, err := a.stateDir(f.dir)
	if err != nil {
		return nil, err
	}
	found, err := a.findSystem(args)
	if err != nil {
		return nil, err
	}
	c := topology.Config{
		ComposeFiles: found.files, Overlay: found.overlay, OverlayName: found.overlayName,
		Env: a.composeEnv(), Profiles: f.profiles,
	}
	if !found.lean {
		enabled, err := c.EnabledProfiles()
		if err != nil {
			return nil, err
		}
		c.Profiles = append(slices.Clone(f.profiles), enabled...)
	}
	t := &upTarget{said: strings.Join(args, " "), variant: found.variant, name: f.name, dir: f.dir, store: project.Store{Dir: dir}}
	if t.system, err = topology.Load(ctx, c); err != nil {
		return nil, usageError{err}
	}
	if t.name == "" {
		t.name = t.system.Name + found.suffix
	}
	if err := project.CheckName(t.name); err != nil {
		return nil, usagef("--project-name: %w", err)
	}
	return t, nil
}

// record is the project's, as it begins.
func (t *upTarget) record(driver string) project.Record {
	r := project.Record{Name: t.name, Target: t.said, Variant: t.variant, Driver: driver}
	source := t.system.Source()
	r.Profiles = slices.Compact(slices.Sorted(slices.Values(source.Profiles)))
	for _, file := range source.ComposeFiles {
		if abs, err := filepath.Abs(file); err == nil {
			file = abs
		}
		r.Files = append(r.Files, file)
	}
	return r
}

// alreadyUp is for a system that another process keeps up: that is as good, if
// it is the same system.
func (a *app) alreadyUp(ctx context.Context, t *upTarget, f upFlags, is project.Record) error {
	want := t.record(f.driver)
	if !slices.Equal(is.Files, want.Files) || is.Variant != want.Variant || is.Driver != want.Driver {
		return fmt.Errorf("a system called %s is already running, but it is `%s` with the driver %s; stop it first with `%s`, or give this one another name with --project-name",
			t.name, is.Target, is.Driver, downCommandFor(t.name, f.dir))
	}
	if !slices.Equal(is.Profiles, want.Profiles) {
		return fmt.Errorf("%s is already running, but %s, not %s; stop it first with `%s`, or give this one another name with --project-name",
			t.name, withProfiles(is.Profiles), withProfiles(want.Profiles), downCommandFor(t.name, f.dir))
	}
	if is.Phase == project.Starting {
		fmt.Fprintf(a.Stderr, "%s is being started by process %d\n", is.Name, is.Owner.PID)
	}
	r, err := awaitPhase(ctx, t.store, is)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is already running, since %s\n", r.Name, r.Since.Format("15:04:05 on 2 January"))
	a.printUp(t.store, r, downCommandFor(r.Name, f.dir))
	return nil
}

func withProfiles(profiles []string) string {
	switch len(profiles) {
	case 0:
		return "without profiles"
	case 1:
		return "with the profile " + profiles[0]
	}
	return "with the profiles " + strings.Join(profiles, ", ")
}

// awaitPhase waits until a system that is being started is up.
func awaitPhase(ctx context.Context, store project.Store, r project.Record) (project.Record, error) {
	for r.Phase == project.Starting {
		if err := pause(ctx); err != nil {
			return r, err
		}
		now, ok, err := store.Find(r.Name)
		if err != nil {
			return r, err
		}
		if !ok || now.Owner != r.Owner {
			return r, errors.New(r.Name + " failed to start")
		}
		r = now
	}
	if r.Phase == project.Stopping {
		return r, fmt.Errorf("%s is being stopped; try again afterwards", r.Name)
	}
	return r, nil
}

// downCommandFor is the command that stops a project, as a shell takes it.
func downCommandFor(name, dir string) string {
	if dir == "" {
		return "loadstone down " + name
	}
	special := func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%=", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if strings.ContainsFunc(dir, special) {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return "loadstone down " + name + " --dir " + dir
}
