package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"loadstone/lab/driver/process/recipe"
	"loadstone/lab/host"
	"loadstone/lab/host/packets"
	"loadstone/lab/topology"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		GroupID: "lab",
		Short:   "Check whether this machine can run experiments, and what it lacks",
		Long: `Check whether this machine can run experiments: what is available, what is missing,
and how to get it. Exit status 1 if verdicts would be less reliable on this machine.`,
		Example: `  loadstone doctor`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	m, lacking := host.This()
	fmt.Fprintf(a.Stdout, "machine   %s, %d cores, %.1f GiB, Linux %s\n", m.CPU, m.Cores, float64(m.MemoryBytes)/(1<<30), m.Kernel)
	if m.LimitsEnforced {
		fmt.Fprintf(a.Stdout, "limits    ✓ CPU and memory, by control groups version %d\n", m.CgroupVersion)
	}
	if m.Cores < 2 {
		lacking = append(lacking, "One core is not enough: the load generator and the system would share it. Use a machine with two or more.")
	}
	if err := packets.Check(); err != nil {
		fmt.Fprintf(a.Stdout, "waiting   – where requests wait between services is not seen: %v\n", err)
	} else {
		fmt.Fprintln(a.Stdout, "waiting   ✓ where requests wait between services is seen, in packets on the loopback interface")
	}
	a.images(ctx)
	a.docker(ctx)
	for _, text := range lacking {
		fmt.Fprintf(a.Stdout, "lacking   ✗ %s\n", text)
	}
	if len(lacking) > 0 {
		return exitStatusError(exitFailed)
	}
	fmt.Fprintln(a.Stdout, "ready     ✓ loadstone run system/results/experiments/embedded.yaml")
	return nil
}

// images lists the images that run here without Docker. One that is missing is
// no fault of the machine: few systems need all of them.
func (a *app) images(ctx context.Context) {
	for _, r := range recipe.All() {
		if _, err := r.Locate(ctx, r.Image, a.Getenv("PATH")); err != nil {
			fmt.Fprintf(a.Stdout, "image     – %s cannot run as a local process: %s\n", r.Image, r.Hint())
			continue
		}
		fmt.Fprintf(a.Stdout, "image     ✓ %s\n", r.Image)
	}
}

// docker says whether systems can run in containers. That is no more needed than
// an image is.
func (a *app) docker(ctx context.Context) {
	if err := a.driver(dockerDriver, false, true).Check(ctx, &topology.System{}); err != nil {
		fmt.Fprintf(a.Stdout, "driver    – docker: %v\n", err)
		return
	}
	fmt.Fprintln(a.Stdout, "driver    ✓ docker: --driver docker")
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
