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
			failed = usagef("%s=%s: %w", name, value, err)
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

// onOff is a flag that switches something on or off.
type onOff struct{ on *bool }

func (s onOff) String() string {
	if s.on != nil && *s.on {
		return "on"
	}
	return "off"
}

// Set is for pflag.
func (s onOff) Set(text string) error {
	if text != "on" && text != "off" {
		return errors.New("write on or off")
	}
	*s.on = text == "on"
	return nil
}

// Type is for pflag, which shows it in the help.
func (onOff) Type() string { return "string" }

func (a *app) healthCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "health",
		Short:   "Check whether a server is ready: for container health checks",
		Long:    "Check whether a server is ready. Exit status 0 if it is, 1 if not.",
		Example: `  loadstone results health --url http://127.0.0.1:8080/readyz`,
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
