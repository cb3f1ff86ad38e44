package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"loadstone/block/dataset"
	"loadstone/system/menu"
	"loadstone/system/menu/menufile"
	"loadstone/system/menu/stores"
)

func (a *app) menuExportCommand() *cobra.Command {
	var from, to, format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all menus to a file, as 'menu import' reads it",
		Long: `Write all menus of a database, as they are now, to a file that 'loadstone menu import'
reads: complete, or not at all. If its name ends in .gz it is compressed. - is the standard
output, for which --format says the format.`,
		Example: `  loadstone menu export --from pebble:menus --to menus.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			written := menufile.Format(format)
			if written == "" {
				var err error
				if written, err = menufile.FormatOf(to); err != nil {
					return usagef("--to: %w", err)
				}
			}
			if !slices.Contains(menufile.Written, written) {
				return usagef("menus cannot be written as %q: write csv, jsonl or psv", written)
			}
			return readMenus(cmd.Context(), from, "--from", func(source dataset.Source[menu.Menu]) error {
				return a.exportMenus(cmd.Context(), source, to, written)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to read: "+stores.DatabaseForms)
	cmd.Flags().StringVar(&to, "to", "", "file to write")
	cmd.Flags().StringVar(&format, "format", "", "format of the file: csv, jsonl or psv (default: by its name)")
	return cmd
}

// exportMenus writes menus to a file, all or nothing, compressed if its name says so.
func (a *app) exportMenus(ctx context.Context, source dataset.Source[menu.Menu], to string, format menufile.Format) error {
	return a.writeData(to, "menus", func(w io.Writer, progress dataset.Progress) error {
		return compressing(to, w, func(w io.Writer) error { return menufile.Write(ctx, w, format, source, progress) })
	})
}
