package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/system/menu/stores"
)

func (a *app) menuVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify record:FILE",
		Short: "Read a published file whole and check every menu",
		Long: `Read a file that 'menu publish' wrote, whole: every record has its checksum, decompresses to
what was published, is a menu, and is found by its id. A server checks the index when it opens
the file, and each menu when it is asked for; this finds damage before, such as after a copy.
The file may be served meanwhile.

The exit status is 1 if the file is damaged or missing.`,
		Example: `  loadstone menu verify record:menus.record`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := stores.Parse(args[0])
			if err != nil {
				return usageError{err}
			}
			began := time.Now()
			bar := newCountBar(a.Stderr, a.Terminal, "menus")
			meta, size, err := name.Verify(cmd.Context(), bar.set)
			bar.close()
			switch {
			case errors.Is(err, stores.ErrNoFile):
				return usageError{err}
			case err != nil:
				return err
			}
			fmt.Fprintf(a.Stdout, "%s is whole: %d menus in %d bytes, %s (%.1f s)\n", name, meta.Count, size, meta.Origin, time.Since(began).Seconds())
			return nil
		},
	}
}
