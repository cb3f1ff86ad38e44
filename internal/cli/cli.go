// Package cli is the command line: it maps arguments to the configuration of
// the parts, and errors to exit statuses. It is the only place where all parts
// meet, and the only one that touches the process: arguments, environment,
// signals and exit status.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"loadstone/block/spelling"
	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/term"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitCrossed = 99 // an SLO was crossed, as in k6
)

// Env is all that a command knows of the process it runs in.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Executable is the path of this program, which starts itself again for
	// the load generator and the services of the image "loadstone".
	Executable string
	// Terminal says whether Stderr is one: progress is drawn there.
	Terminal bool
	// Color says whether Stdout is a terminal that wants colours.
	Color bool
	Width int // of the terminal, in columns
}

// ProcessEnv is the environment of the real process.
func ProcessEnv() Env {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Executable: exe,
		Terminal: isatty.IsTerminal(os.Stderr.Fd()) && os.Getenv("TERM") != "dumb",
		Color:    term.Colors(isatty.IsTerminal(os.Stdout.Fd()), os.Getenv),
		Width:    terminalWidth(os.Stdout),
	}
}

// Main runs a command until it ends or the process is told to stop, and
// returns the exit status. The first SIGINT or SIGTERM asks the command to
// stop; after that signals have their usual effect, so a second one ends the
// process.
func Main(env Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, env)
}

// Run runs the command that env.Args name and returns the exit status.
func Run(ctx context.Context, env Env) int {
	a := &app{Env: env}
	root := a.root() //nolint:contextcheck // each command gets the context from cobra
	root.SetArgs(env.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if status, ok := errors.AsType[exitStatusError](err); ok {
		return int(status)
	}
	code := exitFailed
	if !a.started || isUsage(err) {
		code = exitUsage
	}
	message := unknownCommand(root, err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		message = "stopped before it was done"
		if p, ok := errors.AsType[partialError](err); ok {
			message += "\n" + p.left
		}
	}
	fmt.Fprintf(env.Stderr, "loadstone: %s\n", strings.TrimSuffix(message, "\n"))
	return code
}

// app is one invocation.
type app struct {
	Env
	started bool // the arguments were understood and the command began
}

// exitStatusError is an error that has been reported already.
type exitStatusError int

func (s exitStatusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is a mistake of the caller's: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func isUsage(err error) bool {
	var u usageError
	var e *experiment.Error
	var r archive.NoRunError
	var m *experiment.MissingFileError
	return errors.As(err, &u) || errors.As(err, &e) || errors.As(err, &r) || errors.As(err, &m)
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loadstone",
		Short: "Load a system and point at its bottleneck",
		Long: `Loadstone puts a system under load and finds its bottleneck.

The system is a Compose file, each variant is an override of it, the load is written
in k6's terms, and an SLO defines what is good enough. Loadstone starts every variant,
loads it, monitors each component, finds its capacity with an interval, names the
bottleneck with evidence, and compares the variants in one report.`,
		Example: `  # a first experiment for your own Compose file
  loadstone init compose.yaml

  # run an experiment: all variants, interleaved trials, verdicts, report
  loadstone run system/results/experiments/embedded.yaml

  # regenerate the report of a run
  loadstone report runs/20261121-100000-results-embedded

  # start a system and keep it running; stop it from another terminal
  loadstone up results
  loadstone down

  # only the load generator
  loadstone load http://127.0.0.1:8080/student/{id} --feed id=uniform:10000..674823 --rate 500/s --duration 10s

  # a results service with synthetic data
  loadstone results seed --store snapshot:results.snapshot
  loadstone results serve --store snapshot:results.snapshot --access open`,
		Version:       programVersion(),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
	}
	cmd.SetIn(a.Stdin)
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	cmd.SetVersionTemplate("loadstone {{.Version}}\n")
	cmd.SetFlagErrorFunc(flagMistake)
	cmd.AddGroup(&cobra.Group{ID: "lab", Title: "The instrument:"}, &cobra.Group{ID: "system", Title: "The systems:"})
	cmd.AddCommand(
		a.initCommand(), a.runCommand(), a.upCommand(), a.downCommand(), a.psCommand(), a.reportCommand(), a.uiCommand(), a.compareCommand(), a.predictCommand(),
		a.loadCommand(), a.importLoadCommand(), a.schemaCommand(), a.doctorCommand(), a.selftestCommand(), a.versionCommand(),
		a.resultsCommand(),
		a.patternsCommand(),
		a.menuCommand(),
		a.feedCommand(),
		a.chatCommand(),
	)
	cmd.AddCommand(a.internalCommand())
	for _, c := range cmd.Commands() {
		checkArguments(c)
	}
	return cmd
}

var unknownForm = regexp.MustCompile(`^unknown command "(.+)" for "(\S+)(.*)"`)

// unknownCommand is an error as it is, but for cobra's that there is no such command.
func unknownCommand(root *cobra.Command, err error) string {
	m := unknownForm.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	parent, _, found := root.Find(strings.Fields(m[3]))
	if found != nil || !parent.HasAvailableSubCommands() {
		return err.Error()
	}
	var known []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	return fmt.Sprintf("%s has no command %s; %s", parent.CommandPath(), spelling.Quote(m[1]), spelling.Choose(m[1], known))
}

var countForm = regexp.MustCompile(`^(?:accepts|requires) (.+) arg\(s\), (?:only )?received (\d+)$`)

// wrongCount says how many arguments a command takes, where cobra says that there are more or
// less.
func wrongCount(cmd *cobra.Command, err error) string {
	m := countForm.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	noun := "arguments"
	if strings.HasSuffix(m[1], "1") {
		noun = "argument"
	}
	given := m[2] + " are"
	switch m[2] {
	case "0":
		given = "none is"
	case "1":
		given = "one is"
	}
	return fmt.Sprintf("%s takes %s %s, and %s given", cmd.CommandPath(), m[1], noun, given)
}

// checkArguments makes a wrong number of arguments of cmd and of all commands below
// it a usage error that says where to look. A command that asks for none takes none.
func checkArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		checkArguments(c)
	}
	if cmd.HasSubCommands() {
		return
	}
	check := cmd.Args
	if check == nil {
		check = cobra.NoArgs
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			_, arguments, _ := strings.Cut(cmd.Use, " ")
			return usagef("%s; write %s %s, or see '%s --help'", wrongCount(cmd, err), cmd.CommandPath(), arguments, cmd.CommandPath())
		}
		return nil
	}
}
