package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/system/menu"
	"loadstone/system/menu/search"
	"loadstone/system/menu/stores"
)

func (a *app) menuIndexCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Make the file in which editors find dishes",
		Long: `Make the file in which editors find dishes, of all menus of a database: complete, or not at
all. 'menu serve --search-index' keeps it fresh; a second server needs one of its own.`,
		Example: `  loadstone menu index --from pebble:menus --to menus.search
  loadstone menu serve --store pebble:menus --accounts accounts --search-index menus.search`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, from, "--from")
			if err != nil {
				return err
			}
			if to == "" {
				return usagef("menu index: name the file with --to")
			}
			began := time.Now()
			bar := newCountBar(a.Stderr, a.Terminal, "menus")
			err = name.Desk(cmd.Context(), func(desk menu.Desk) error { return search.Build(cmd.Context(), to, desk, bar.set) })
			bar.close()
			switch {
			case errors.Is(err, stores.ErrNoDatabase):
				return usagef("--from: %w", err)
			case err != nil:
				return err
			}
			fmt.Fprintf(a.Stdout, "%s finds the dishes of %s (%.1f s)\n", to, name, time.Since(began).Seconds())
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to read: "+stores.DatabaseForms)
	cmd.Flags().StringVar(&to, "to", "", "file to write")
	return cmd
}
