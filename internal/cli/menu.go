package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/account"
	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
	"loadstone/system/menu/admin"
	"loadstone/system/menu/cqlstore"
	"loadstone/system/menu/menufile"
	"loadstone/system/menu/stores"
)

func (a *app) menuCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "menu",
		GroupID: "system",
		Short:   "Restaurant menus: seed or import, publish, serve",
		Long: `Menus of restaurants, looked up by the restaurant's id: ten million of them, if need be.

A store is written KIND:PATH, or as the address of a database:

  pebble:DIRECTORY                      a database within this program
  record:FILE                           menus as they were published: one file that does
                                        not change, made from a database
  postgres://USER@HOST/DATABASE         PostgreSQL
  cassandra://HOST[,HOST]/KEYSPACE      Cassandra`,
		Example: `  # invented menus: into a database, from there into a file, and serve the file
  loadstone menu seed --store pebble:menus --menus 100000 --seed 1
  loadstone menu publish --from pebble:menus --to record:menus.record
  loadstone menu serve --store record:menus.record --listen 127.0.0.1:8090

  # your own
  loadstone menu import menus.csv --store pebble:own`,
	}
	cmd.AddCommand(a.menuImportCommand(), a.menuExportCommand(), a.menuPublishCommand(), a.menuVerifyCommand(), a.menuDictionaryCommand(), a.menuIndexCommand(), a.menuSecretsCommand(), a.menuAccounts().command(), a.healthCommand("menu"))
	cmd.AddCommand(a.withEnv("MENU_", a.menuSeedCommand(), a.menuServeCommand(), a.menuProxyCommand(), a.menuWarmCommand())...)
	cmd.RunE = needsCommand
	return cmd
}

// menuAccounts are who may edit menus.
func (a *app) menuAccounts() *accounts {
	return &accounts{app: a, system: "menu", does: "edit menus", roles: "An editor writes drafts, a\npublisher publishes them, too.", file: account.File{Roles: admin.Roles()}}
}

func (a *app) menuSeedCommand() *cobra.Command {
	var store, file string
	var count int64
	var seed uint64
	var keep bool
	var tables func(*stores.Name) error
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Fill a store with invented menus, or with yours",
		Long: `Fill a store with invented menus. The same seed gives the same menus: a third are a
link, the others have 10 to 19 dishes. A store that has them already is left unchanged,
one with other menus is refused, and an interrupted seed goes on when it is run again.

Every flag can be given as an environment variable as well: --store as MENU_STORE.`,
		Example: `  loadstone menu seed --store pebble:menus --menus 100000 --seed 1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, store, "--store")
			if err == nil {
				err = tables(&name)
			}
			if err != nil {
				return err
			}
			if keep {
				origin, err := name.Imported(cmd.Context())
				if err != nil {
					return fmt.Errorf("nothing was changed, for it is not known whether %s has imported menus: %w", name, err)
				}
				if origin != "" {
					fmt.Fprintf(a.Stdout, "%s has menus that were imported or changed, %s; they are kept\n", name, origin)
					return nil
				}
			}
			var source dataset.Source[menu.Menu]
			if file != "" {
				source, err = menufile.Open(cmd.Context(), file, menufile.Options{})
			} else {
				source, err = menu.NewGenerator(seed, count)
			}
			if err != nil {
				return usageError{err}
			}
			return a.fillMenus(cmd.Context(), name, source, name.Fill)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	tables = sortedTablesFlags(fl)
	fl.Int64Var(&count, "menus", menu.DefaultCount, "number of menus")
	fl.Uint64Var(&seed, "seed", 1, "seed of the invented menus")
	fl.StringVar(&file, "file", "", "file of menus to use instead of invented ones, as for 'menu import'; none if empty")
	fl.BoolVar(&keep, "keep-imported", false, "leave a store with imported menus unchanged, whichever they are")
	return cmd
}

func (a *app) menuImportCommand() *cobra.Command {
	var store string
	var options menufile.Options
	var tables func(*stores.Name) error
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Fill a store with the menus of a file",
		Long: `Fill a store with the menus of a file, whose name says its format: .csv has a dish a
row, .jsonl a menu a line, .jsonld is schema.org's Menu, and .psv has id|dishes|link a
line; .gz behind it is compressed.

An import is complete or stores nothing that is served: every mistake is reported with
its line. An interrupted one goes on when it is run again.`,
		Example: `  loadstone menu import menus.csv --store pebble:menus
  loadstone menu import menus.txt --format psv --currency ETB --store pebble:menus`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := storeName(stores.Parse, store, "--store")
			if err == nil {
				err = tables(&name)
			}
			if err != nil {
				return err
			}
			file, err := menufile.Open(cmd.Context(), args[0], options)
			if err != nil {
				return usageError{err}
			}
			return a.fillMenus(cmd.Context(), name, file, name.Fill)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	tables = sortedTablesFlags(fl)
	fl.StringVar((*string)(&options.Format), "format", "", "format of the file: csv, jsonl, jsonld or psv (default: by its name)")
	fl.StringVar(&options.Currency, "currency", menu.DefaultCurrency, "currency of prices where the file names none")
	return cmd
}

func (a *app) menuPublishCommand() *cobra.Command {
	var from, to, with string
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Turn a database into a file of menus that is fast to serve",
		Long: `Turn a database into a record file: compressed, checked, and fast to serve. A file that
has the same menus is left unchanged; otherwise it is replaced as a whole.`,
		Example: `  loadstone menu publish --from pebble:menus --to record:menus.record`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, to, "--to")
			if err == nil && name.Kind != stores.Record {
				err = usagef("--to %s: %w", name, stores.ErrNoFile)
			}
			if err != nil {
				return err
			}
			var given *dictionary.Dictionary
			if with != "" {
				if given, err = dictionary.Read(with, menu.MaxBodyBytes); err != nil {
					return usagef("--dictionary: %w", err)
				}
			}
			publish := func(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
				return name.Publish(ctx, source, given, progress)
			}
			return readMenus(cmd.Context(), from, "--from", func(source dataset.Source[menu.Menu]) error {
				return a.fillMenus(cmd.Context(), name, source, publish)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to read: "+stores.DatabaseForms)
	cmd.Flags().StringVar(&to, "to", "", "file to write: record:FILE")
	cmd.Flags().StringVar(&with, "dictionary", "", "file of 'menu dictionary' to compress with, which clients and caches may have already (default: trained anew)")
	return cmd
}

// sortedTablesFlags are how a Cassandra is filled; what is returned puts them into its name.
func sortedTablesFlags(fl *pflag.FlagSet) func(*stores.Name) error {
	var t cqlstore.SortedTables
	fl.StringVar(&t.Dir, "sorted-tables", "", "of a Cassandra whose nodes hold all menus: write sorted tables into this directory and have nodes import them, by JMX at port 7199; they must find it under the same path, and may move its files; in batches if empty")
	fl.StringVar(&t.Home, "cassandra-home", "", "where Cassandra is, to write sorted tables with Java 17 and the jars in lib (default: what 'make deps' fetched)")
	return func(name *stores.Name) error {
		if t.Dir == "" {
			return nil
		}
		if name.Kind != stores.Cassandra {
			return usagef("--sorted-tables is for a Cassandra: write --store cassandra://HOST/KEYSPACE, or leave it out")
		}
		if cache, err := os.UserCacheDir(); t.Home == "" && err == nil {
			found, _ := filepath.Glob(filepath.Join(cache, "loadstone", "cassandra-*")) // the pattern is a constant
			t.Home = slices.Max(append(found, ""))
		}
		if found, err := filepath.Glob(filepath.Join(t.Home, "lib", "*cassandra*.jar")); t.Home == "" || err != nil || len(found) == 0 {
			return usagef("--sorted-tables needs Cassandra's jars, and there are none in %q: name where Cassandra is with --cassandra-home, or fetch it with 'make deps'", filepath.Join(t.Home, "lib"))
		}
		name.SortedTables = t
		return nil
	}
}

// readMenus opens the database that a flag names and hands over all its menus.
func readMenus(ctx context.Context, text, flag string, use func(dataset.Source[menu.Menu]) error) error {
	name, err := storeName(stores.Parse, text, flag)
	if err != nil {
		return err
	}
	err = name.Read(ctx, use)
	if errors.Is(err, stores.ErrNoDatabase) {
		return usagef("%s: %w", flag, err)
	}
	return err
}

// fillMenus puts the source into a store with fill, and says what came of it.
func (a *app) fillMenus(ctx context.Context, store stores.Name, source dataset.Source[menu.Menu],
	fill func(context.Context, dataset.Source[menu.Menu], dataset.Progress) (menu.Filled, error),
) error {
	return a.filling(store, "menus", source.Meta().Origin, func(progress dataset.Progress) (filled, error) {
		did, err := fill(ctx, source, progress)
		switch {
		case errors.Is(err, menu.ErrInput):
			err = usageError{err}
		case errors.Is(err, menu.ErrOccupied):
			err = leftAsItIs(err)
		}
		return filled{already: did.Kept, resumed: did.Resumed}, err
	})
}
