package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/load/generator"
)

// The helpers that this program starts itself as. They are no commands for
// people, and not shown.
const (
	internalName  = "internal"
	generatorName = "generator"
	shimName      = "shim"
	guardianName  = "guardian"
	plantName     = "plant"
)

func (a *app) internalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: internalName, Hidden: true, Short: "Child processes that this program starts"}
	cmd.AddCommand(
		&cobra.Command{
			Use: generatorName, Short: "Generate the load described on standard input",
			RunE: func(cmd *cobra.Command, _ []string) error { return generator.Serve(cmd.Context(), a.Stdin, a.Stdout) },
		},
		&cobra.Command{
			Use: shimName, Short: "Join a control group and execute another program", DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
			RunE: func(_ *cobra.Command, args []string) error { return cgroup.JoinAndExec(args, os.Environ()) },
		},
		&cobra.Command{
			Use: guardianName, Short: "Clean up after a killed run",
			RunE: func(cmd *cobra.Command, _ []string) error {
				// It is there for when everything else is told to end.
				signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
				return guardian.Run(cmd.Context(), a.Stdin, a.Stdout)
			},
		},
		&cobra.Command{
			Use: plantName + " CONFIG", Short: "Run one service of a self-test system", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.plant(cmd.Context(), args[0]) },
		},
	)
	return cmd
}
