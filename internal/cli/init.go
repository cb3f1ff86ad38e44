package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"loadstone/block/atomicfile"
	"loadstone/internal/proposal"
	"loadstone/lab/driver/process"
	"loadstone/lab/driver/process/network"
	"loadstone/lab/experiment"
	"loadstone/lab/topology"
)

type initFlags struct {
	entry, request, output string
}

// composeNames are what Compose looks for.
var composeNames = []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"}

func (a *app) initCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:     "init [COMPOSE.yaml]",
		GroupID: "lab",
		Short:   "Propose a first experiment for a Compose file",
		Long: `Propose a first experiment for a Compose file, by default the compose.yaml of this
directory. Two files are written beside it, with comments that say what to check:

  compose.loadstone.yaml  merged over the Compose file: CPU limits for services without
                          one, how services start without Docker (from their
                          Dockerfiles), and the addresses of other services or, where a
                          name may be in a program, a network for each instance
  experiment.yaml         the service that takes the load, a first request, what is good
                          enough, and the search for the highest rate

The Compose file stays as it is, and no file is overwritten. Nothing is started.`,
		Example: `  loadstone init
  loadstone init shop/compose.yaml --request 'GET /product/{id}'
  loadstone run experiment.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := composeFile(args)
			if err != nil {
				return err
			}
			return a.initialise(cmd.Context(), file, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.entry, "entry", "", "the service that takes the load (default: the one that publishes a port)")
	fl.StringVar(&f.request, "request", "", "the first request, such as 'GET /product/{id}' (GET / if not given)")
	fl.StringVarP(&f.output, "output", "o", "experiment.yaml", "name of the experiment file, beside the Compose file")
	return cmd
}

// composeFile is the one that is given, or that is here.
func composeFile(args []string) (string, error) {
	if len(args) == 1 {
		info, err := os.Stat(args[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", usagef("there is no file %s; write the path of a Compose file", args[0])
		case err != nil:
			return "", usageError{err}
		case !info.IsDir():
			return args[0], nil
		}
	}
	dir := strings.Join(args, "")
	for _, name := range composeNames {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", usagef("there is no compose.yaml here; write loadstone init PATH with the path of a Compose file, or see README's \"Your own system\" for how one begins")
}

// overrideFile is what init merges over a Compose file.
const overrideFile = "compose.loadstone.yaml"

func (a *app) initialise(ctx context.Context, file string, f initFlags) error {
	dir := filepath.Dir(file)
	if f.output != filepath.Base(f.output) {
		return usagef("--output %s: write a name without a directory; the file is written beside the Compose file, which paths in it are relative to", f.output)
	}
	system, err := topology.Load(ctx, topology.Config{ComposeFiles: []string{file}, Env: a.composeEnv()})
	if err != nil {
		return usageError{err}
	}
	p, err := proposal.New(proposal.Config{
		ComposeFile: file, System: system, Without: a.unstartable(ctx, system), Entry: f.entry, Request: f.request, Cores: runtime.NumCPU(),
		OwnNetworks: func() bool { return network.Available() == nil },
	})
	if err != nil {
		return usageError{err}
	}
	experimentPath, override, overridePath := filepath.Join(dir, f.output), "", ""
	if p.NeedsOverride() {
		override, overridePath = overrideFile, filepath.Join(dir, overrideFile)
	}
	text := p.Experiment(f.output, override)
	if _, err := experiment.Parse(experimentPath, []byte(text)); err != nil {
		return usagef("--request %q: %w", f.request, err) // all else in it is this program's
	}
	if _, err := os.Lstat(experimentPath); err == nil {
		return usagef("%s is there already, and init overwrites nothing; write another name with --output", experimentPath)
	}
	if _, err := os.Lstat(overridePath); overridePath != "" && err == nil {
		fmt.Fprintf(a.Stdout, "kept  %s, which is there already\n", overridePath)
	} else if overridePath != "" {
		if err := atomicfile.Write(overridePath, []byte(p.Override()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "wrote %s: %s\n", overridePath, overrideText(p))
	}
	if err := atomicfile.Write(experimentPath, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "wrote %s: load on %s (%s) with %s\n", experimentPath, p.Entry, p.Why, p.Request)
	for _, name := range p.Unknown {
		fmt.Fprintf(a.Stdout, "how %s starts without Docker was not found: write its x-process into %s, or run with --driver docker\n", name, overridePath)
	}
	a.printUntold(p)
	if f.request == "" {
		fmt.Fprintf(a.Stdout, "%s is a guess: if users ask for something else, write it as request: in %s\n", p.Request, experimentPath)
	}
	fmt.Fprintf(a.Stdout, "next:  loadstone run %s (with --check it only says what it would run, and for how long)\n", experimentPath)
	return nil
}

// printUntold says whose names may be in programs, and what is, or is to be, done about it.
func (a *app) printUntold(p *proposal.Proposal) {
	for _, text := range p.UntoldTexts() {
		fmt.Fprintln(a.Stdout, text)
	}
	switch {
	case len(p.Untold) == 0:
	case p.OwnNetwork:
		fmt.Fprintln(a.Stdout, "so each instance is given a network of its own, in which names are found (x-network: own); that takes root")
	default:
		fmt.Fprintln(a.Stdout, "such a name is not found here: run as root with x-network: own at the top of the file, run with --driver docker, or let the program read it from a variable, such as DB_HOST: ${DB_HOST:-db}")
	}
}

// unstartable are the services that cannot start as local processes as they are.
func (a *app) unstartable(ctx context.Context, system *topology.System) []string {
	var out []string
	for i := range system.Services {
		one := *system
		one.Services = system.Services[i : i+1]
		err := a.driver(processDriver, false, true).Check(ctx, &one)
		if _, ok := errors.AsType[*process.NoRecipeError](err); ok {
			out = append(out, system.Services[i].Name)
		}
	}
	return out
}

func overrideText(p *proposal.Proposal) string {
	var parts []string
	switch len(p.Limited) {
	case 0:
	case 1:
		parts = append(parts, fmt.Sprintf("%g CPU for %s", p.CPUs, p.Limited[0]))
	default:
		parts = append(parts, fmt.Sprintf("%g CPU each for %s", p.CPUs, strings.Join(p.Limited, ", ")))
	}
	if n := len(p.Starts); n > 0 {
		parts = append(parts, "how services that are built start without Docker")
	}
	if n := len(p.Environment); n > 0 {
		parts = append(parts, "the addresses of other services")
	}
	return strings.Join(parts, "; ")
}
