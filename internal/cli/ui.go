package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"loadstone/lab/ui"
)

func (a *app) uiCommand() *cobra.Command {
	c := ui.DefaultConfig()
	cmd := &cobra.Command{
		Use:     "ui",
		GroupID: "lab",
		Short:   "Show all runs in a browser, live while one runs, and compare any two",
		Long: `Serve all runs to a browser: a list with their reports, a live page for a run under
way, and a comparison of any two. No files are written or changed. It serves until
it is stopped.

There is no log-in: anyone who can reach the address can read all runs. Therefore
the default address can only be reached from this machine.`,
		Example: `  loadstone ui
  loadstone ui --runs runs --listen 127.0.0.1:8000`,
		RunE: checked(&c, func(ctx context.Context, c ui.Config) error {
			if c.Public() {
				fmt.Fprintf(a.Stderr, "warning: anyone who can reach %s can read all runs: there is no log-in\n", c.Listen)
			}
			s, err := ui.Listen(ctx, c)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s serves the runs in %s until it is stopped\n", s.URL(), c.Runs)
			return s.Run(ctx)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Runs, "runs", c.Runs, "directory of runs")
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for browsers, host:port; with port 0, any free port")
	return cmd
}
