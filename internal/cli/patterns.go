package cli

import "github.com/spf13/cobra"

func (a *app) patternsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "patterns",
		GroupID: "system",
		Short:   "Six patterns for high load, each off and on",
		Long: `Six patterns for high load, each switched off and on: a cache that is refreshed ahead,
doing a thing once for everyone who asks, a worker pool, stateless scaling, from
synchronous to asynchronous, and from SQL to NoSQL.

Each has an experiment that says what it is worth, in system/patterns/experiments,
and a page in docs/patterns.`,
		Example: `  loadstone patterns serve --refresh-ahead on --do-once local --pool reject

  loadstone run system/patterns/experiments/pool.yaml`,
	}
	cmd.AddCommand(
		a.patternsServeCommand(),
		a.patternsHealthCommand(),
		a.patternsLogCommand(),
		a.patternsBrokerCommand(),
		a.patternsReconcileCommand(),
	)
	cmd.RunE = needsCommand
	return cmd
}

// patternsHealthCommand is the one of the results: what is ready answers alike.
func (a *app) patternsHealthCommand() *cobra.Command {
	cmd := a.healthCommand()
	cmd.Example = `  loadstone patterns health --url http://127.0.0.1:8080/readyz`
	return cmd
}
