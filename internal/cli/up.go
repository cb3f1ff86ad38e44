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
		Short:   "Start a system and keep it up",
		Long: `Start a system and keep it up: one that this program ships with, by its name; your
own, by its Compose file; or one variant of an experiment, without a variant the
first. Ctrl-C stops it, or 'loadstone down' from elsewhere.

Profiles are those of --profile and of COMPOSE_PROFILES, in the environment or in
the .env beside the Compose file, as with docker compose. Of an experiment they
are only those of --profile: what is up then is what 'loadstone run' measures.

Published ports are opened at 127.0.0.1, or at the address that the file gives.
Without Docker they are forwarded, so the system takes all clients for 127.0.0.1,
and results counts them as one for its limit of 100 requests a second for each
address; for many students from elsewhere use --driver docker --publish-all.

Exit status: 0 stopped as asked, or up already; 1 failed, or a service ended;
2 a mistake in the arguments.`,
		Example: `  # exam results, with PostgreSQL, Redis, NGINX and monitoring, on this machine
  loadstone up results

  # the same without servers, in the background; what is up; stop it
  loadstone up results embedded --detach
  loadstone ps
  loadstone down results-embedded

  # six patterns for high load, to try each off and on
  loadstone up patterns embedded

  # your own system, without its monitoring; a variant of an experiment
  COMPOSE_PROFILES= loadstone up ./compose.yaml
  loadstone up system/results/experiments/embedded.yaml snapshot`,
		Args:              a.args(cobra.RangeArgs(1, 2)),
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
	driverFlag(cmd, &f.driver)
	fl.StringVar(&f.dir, "dir", "", "directory that keeps records, logs and volumes of what is up (default: "+stateUsage+")")
	fl.StringVarP(&f.name, "project-name", "p", "", "what to call the system (default: the Compose project's name)")
	fl.StringSliceVar(&f.profiles, "profile", nil, "enable a profile of the Compose file, beside those of COMPOSE_PROFILES")
	fl.BoolVarP(&f.detach, "detach", "d", false, "wait until it is up, then leave it up in the background")
	fl.BoolVar(&f.publishAll, "publish-all", false, "open published ports at all addresses of this machine, for others to reach")
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
	if err := checkDriver(f.driver); err != nil {
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
		return fmt.Errorf("a system called %s is up already, but it is `%s` with the driver %s; stop it first with `%s`, or call this one something else with --project-name",
			t.name, is.Target, is.Driver, downCommandFor(t.name, f.dir))
	}
	if !slices.Equal(is.Profiles, want.Profiles) {
		return fmt.Errorf("%s is up already, but %s, not %s; stop it first with `%s`, or call this one something else with --project-name",
			t.name, withProfiles(is.Profiles), withProfiles(want.Profiles), downCommandFor(t.name, f.dir))
	}
	if is.Phase == project.Starting {
		fmt.Fprintf(a.Stderr, "%s is being started by process %d\n", is.Name, is.Owner.PID)
	}
	r, err := awaitPhase(ctx, t.store, is)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is up already, since %s\n", r.Name, r.Since.Format("15:04:05 on 2 January"))
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
			return r, errors.New(r.Name + " was being started and failed")
		}
		r = now
	}
	if r.Phase == project.Stopping {
		return r, fmt.Errorf("%s is being stopped; try again when it is down", r.Name)
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
