package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/kubernetes"
	"loadstone/lab/host/agent"
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
	removerName   = "kubernetes-remove"
	plantName     = "plant"
	agentName     = "agent"
	keeperName    = "keeper"
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
				ignoreSignals()
				return guardian.Run(cmd.Context(), a.Stdin, a.Stdout)
			},
		},
		a.agentCommand(),
		&cobra.Command{
			Use: keeperName, Short: "Restore the limits that a killed agent has changed",
			RunE: func(*cobra.Command, []string) error {
				ignoreSignals()
				return agent.Keep(a.Stdin, a.Stdout)
			},
		},
		&cobra.Command{
			Use: removerName + " NAMESPACE", Short: "Remove what a killed run left in a cluster", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				err := kubernetes.Remove(cmd.Context(), a.composeEnv(), args[0])
				if kubernetes.Refused(err) {
					return usageError{err} // by whose status the guardian knows that it is in vain
				}
				return err
			},
		},
		&cobra.Command{
			Use: plantName + " CONFIG", Short: "Run one service of a self-test system", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return a.plant(cmd.Context(), args[0]) },
		},
	)
	return cmd
}

func (a *app) agentCommand() *cobra.Command {
	c := agent.Config{Keeper: []string{a.Executable, internalName, keeperName}}
	cmd := &cobra.Command{
		Use: agentName, Short: "Watch this machine for a lab on another one, as lines of JSON on standard input and output",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ignoreSignals()
			return agent.Serve(cmd.Context(), a.Stdin, a.Stdout, c)
		},
	}
	cmd.Flags().StringVar(&c.Containers, agent.ContainersFlag, "", "find containers, whose control groups are mounted in this directory")
	cmd.Flags().BytesHexVar((*[]byte)(&c.Lab), agent.LabFlag, nil, "the public key of the lab that names the containers, in hexadecimal digits")
	return cmd
}

// ignoreSignals is for who is there for when everything else is told to end: only the end
// of its input ends it.
func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}
