package cli

import (
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
		c.PreRunE = func(cmd *cobra.Command, _ []string) error { return a.flagsFromEnv(cmd.Flags(), prefix) }
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

// onOff reads a switch.
func onOff(flag, value string) (bool, error) {
	switch value {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, usagef("--%s %q: write on or off", flag, value)
}

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
