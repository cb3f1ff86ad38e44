package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"loadstone/lab/ui"
)

func (a *app) uiCommand() *cobra.Command {
	c := ui.DefaultConfig()
	cmd := &cobra.Command{
		Use:     "ui",
		GroupID: "lab",
		Short:   "Serve all runs to a browser, live while one runs, and compare any two",
		Long: `Serve all runs to a browser: a list of them, each with its report, the one under
way while it runs, and what differs between any two. Nothing is written, and
nothing in the runs is changed. It serves until it is stopped.

There is no log-in: whoever reaches the address reads all runs. So it is this
machine's own unless --listen says otherwise.`,
		Example: `  loadstone ui
  loadstone ui --runs runs --listen 127.0.0.1:8000`,
		Args: a.args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			if c.Public() {
				fmt.Fprintf(a.Stderr, "warning: whoever reaches %s can read all runs: there is no log-in\n", c.Listen)
			}
			s, err := ui.Listen(cmd.Context(), c)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s serves the runs in %s until it is stopped\n", s.URL(), c.Runs)
			return s.Run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Runs, "runs", c.Runs, "directory of runs")
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for browsers, host:port; port 0 takes a free one")
	return cmd
}
