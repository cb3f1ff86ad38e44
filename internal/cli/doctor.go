package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"loadstone/lab/conduct"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		GroupID: "lab",
		Short:   "Say what this machine has, what it lacks, and how to get it",
		Long: `Say what this machine has for running experiments, what it lacks, and how to get
it. Exit status 1 if an experiment's verdict would be weakened here.`,
		Example: `  loadstone doctor`,
		Args:    a.args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.doctor() },
	}
}

func (a *app) doctor() error {
	env, lacking := conduct.Environment(version)
	fmt.Fprintf(a.Stdout, "machine   %s, %d cores, %.1f GiB, Linux %s\n", env.CPU, env.Cores, float64(env.MemoryBytes)/(1<<30), env.Kernel)
	if env.LimitsEnforced {
		fmt.Fprintf(a.Stdout, "limits    ✓ CPU and memory, by control groups version %d\n", env.CgroupVersion)
	}
	if env.Cores < 2 {
		lacking = append(lacking, "One core is too few: the load generator and the system would share it. Use a machine with two or more.")
	}
	for _, text := range lacking {
		fmt.Fprintf(a.Stdout, "lacking   ✗ %s\n", text)
	}
	if len(lacking) > 0 {
		return exitStatusError(exitFailed)
	}
	fmt.Fprintln(a.Stdout, "ready     ✓ loadstone run system/results/experiments/embedded.yaml")
	return nil
}

// terminalWidth is the width of the terminal f in columns; 100 if f is none.
func terminalWidth(f *os.File) int {
	const elsewhere = 100
	if width, _ := terminalSize(f); width > 0 {
		return width
	}
	return elsewhere
}

// terminalSize is the terminal's columns and rows; 0 if f is none.
func terminalSize(f *os.File) (width, height int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(ws.Col), int(ws.Row)
}
