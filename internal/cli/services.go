package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/service"
)

// What the commands of all systems have in common.

// logger writes a service's log to standard output, a JSON object a line.
func (a *app) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(a.Stdout, nil)) }

// withEnv returns commands whose flags can be given in the environment as well.
func (a *app) withEnv(prefix string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.PreRunE = func(cmd *cobra.Command, _ []string) error {
			return cmp.Or(a.flagsFromEnv(cmd.Flags(), prefix), redisPassword(cmd.Flags()), secretsFromFiles(cmd.Flags()))
		}
	}
	return commands
}

// flagsFromEnv sets the flags that were not given from the environment:
// --cache-bytes from RESULTS_CACHE_BYTES.
func (a *app) flagsFromEnv(flags *pflag.FlagSet, prefix string) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := a.Getenv(name)
		if f.Changed || value == "" || failed != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = usagef("%s=%s: %w", name, value, flagValue(err))
		}
	})
	return failed
}

// adminFlags are the flags of the operator's address; guarded is what the token is for.
func adminFlags(fl *pflag.FlagSet, c *service.Config, guarded string) {
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics, "+guarded+"; keep it private")
	fl.StringVar(&c.AdminToken, "admin-token", "",
		"what requests for "+guarded+" must send; without one they are refused; set it in the environment, for every user of the host sees flags")
}

// serviceFlags are the flags of services that have no others of these names; guarded is what the operator's token is for.
func serviceFlags(fl *pflag.FlagSet, c *service.Config, guarded string) {
	fl.StringVar(&c.Listen, "listen", c.Listen, "address of the service")
	adminFlags(fl, c, guarded)
	fl.IntVar(&c.MaxConns, "max-conns", c.MaxConns, "maximum number of open connections")
	stopFlags(fl, c)
}

// stopFlags are the flags of how a service ends.
func stopFlags(fl *pflag.FlagSet, c *service.Config) {
	fl.DurationVar(&c.Drain, "drain", c.Drain, "how long to continue to answer, reporting not ready, after SIGTERM")
	fl.DurationVar(&c.StopTimeout, "stop-timeout", c.StopTimeout, "how long open requests may take after --drain")
}

// checked runs a command with its configuration, once what prepares it has not failed and
// the configuration is valid.
func checked[C interface{ Validate() error }](c *C, run func(context.Context, C) error, prepare ...func() error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		for _, do := range prepare {
			if err := do(); err != nil {
				return err
			}
		}
		if err := (*c).Validate(); err != nil {
			return usageError{err}
		}
		return run(cmd.Context(), *c)
	}
}

// served is checked for what logs.
func served[C interface{ Validate() error }](a *app, c *C, run func(context.Context, C, *slog.Logger) error, prepare ...func() error) func(*cobra.Command, []string) error {
	return checked(c, func(ctx context.Context, c C) error { return run(ctx, c, a.logger()) }, prepare...)
}

// either is a flag that is one of two words.
type either struct {
	value   *bool
	no, yes string
	write   string // what to write in place of another word
}

// onOff is a flag that switches something on or off.
func onOff(value *bool) either { return either{value, "off", "on", "write on or off"} }

func (e either) String() string {
	if e.value != nil && *e.value {
		return e.yes
	}
	return e.no
}

// Set is for pflag.
func (e either) Set(text string) error {
	if text != e.no && text != e.yes {
		return errors.New(e.write)
	}
	*e.value = text == e.yes
	return nil
}

// Type is for pflag, which shows it in the help.
func (either) Type() string { return "string" }

func (a *app) healthCommand(system string) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "health",
		Short:   "Check whether a server is ready: for container health checks",
		Long:    "Check whether a server is ready. Exit status 0 if it is, 1 if not.",
		Example: "  loadstone " + system + " health --url http://127.0.0.1:8080/readyz",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A server that takes longer to say that it is ready is not.
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			err := service.Health(ctx, url)
			if errors.Is(err, service.ErrAddress) {
				return usagef("--url: %w", err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8080/readyz", "address to check")
	return cmd
}
