package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "unknown"

// programVersion is Loadstone's version and what it was built with.
func programVersion() string {
	return fmt.Sprintf("%s (%s, %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: "lab",
		Short:   "Print the version",
		Example: `  loadstone version`,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Stdout, "loadstone", programVersion())
			return err
		},
	}
}
