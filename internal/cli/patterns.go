package cli

import "github.com/spf13/cobra"

func (a *app) patternsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "patterns",
		GroupID: "system",
		Short:   "Six patterns for high load, each off and on",
		Long: `Six patterns for high load, each switched off and on: refresh-ahead cache, do once
and share the result, worker pool, stateless scaling, sync to async, SQL to NoSQL.

Each has an experiment in system/patterns/experiments that measures its effect, and a
page in docs/patterns.`,
		Example: `  loadstone patterns serve --refresh-ahead on --do-once local --pool reject

  loadstone run system/patterns/experiments/pool.yaml`,
	}
	cmd.AddCommand(a.healthCommand("patterns"))
	cmd.AddCommand(a.withEnv("PATTERNS_",
		a.patternsServeCommand(), a.patternsLogCommand(), a.patternsBrokerCommand(), a.patternsReconcileCommand())...)
	cmd.RunE = needsCommand
	return cmd
}

// patternsHealthCommand is the one of the results: what is ready answers alike.
