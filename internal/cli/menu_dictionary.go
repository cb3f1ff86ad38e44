package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/atomicfile"
	"loadstone/system/menu/stores"
)

func (a *app) menuDictionaryCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "dictionary",
		Short: "Write the dictionary that menus are compressed with to a file",
		Long: `Write a dictionary for Zstandard to a file: the one of a record file, or one that is trained
on the menus of a database. With it in --dictionary of 'menu serve' and 'menu proxy', menus in
Redis are compressed, and clients that have fetched it get them as they are there (RFC 9842).
'menu publish --dictionary' keeps it for a new record file.

To replace a dictionary, start all servers and proxies with --dictionary OLD,NEW, then with
NEW,OLD, and with NEW when what was stored with the old one has expired, after an hour and some.`,
		Example: `  loadstone menu dictionary --from record:menus.record --to menus.dictionary`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, from, "--from")
			if err == nil && to == "" {
				err = usagef("--to: name the file to write")
			}
			if err != nil {
				return err
			}
			d, err := name.Dictionary(cmd.Context())
			if err != nil {
				return err
			}
			if err := atomicfile.Write(to, d.Content(), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s has the dictionary %s, %d bytes\n", to, d.Name(), len(d.Content()))
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "store to read: "+stores.Forms)
	cmd.Flags().StringVar(&to, "to", "", "file to write")
	return cmd
}

// menuDictionaryFlag is the one of servers and proxies.
func menuDictionaryFlag(fl *pflag.FlagSet, files *[]string) {
	fl.StringSliceVar(files, "dictionary", nil, "files of 'menu dictionary', separated by commas: menus are compressed with the first in Redis and for clients that have it, and read with any; the same for servers and proxies; none keeps menus as they are, which costs less CPU and three to five times the memory")
}
