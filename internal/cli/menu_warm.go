package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/redact"
	"loadstone/system/menu/menufile"
	"loadstone/system/menu/serve"
)

func (a *app) menuWarmCommand() *cobra.Command {
	c := serve.DefaultWarmConfig()
	cmd := &cobra.Command{
		Use:   "warm FILE",
		Short: "Fill the proxies' Redis before menus are asked for",
		Long: `Fill the Redis of proxies with menus before they are asked for, so that an empty Redis does not
send everybody to the database. FILE has their ids, one a line, plain or compressed by gzip;
- is the standard input. Mistakes in it are listed by line, and then nothing is stored.

--servers, --redis and --dictionary are those of 'menu proxy'. Menus that are there already
stay, so one that was stopped can simply be run again. Redis keeps a menu for about an hour
after it was filled in, and longer while it is asked for; of more than it has room for it
keeps the last ones.

The exit status is 1 if a look-up failed, after a few attempts. An id that has no menu is
counted and is no failure.

Every flag can be given as an environment variable as well: --servers as MENU_SERVERS. A
flag wins.`,
		Example: `  loadstone menu warm hot.ids --servers http://menus-1:8080,http://menus-2:8080 --redis redis://cache

  # the 100000 that an access log names most often
  grep -oE '/api/menu/[0-9]+' access.log | grep -oE '[0-9]+' | sort | uniq -c | sort -rn | head -n 100000 |
    awk '{print $2}' | loadstone menu warm - --servers http://menus:8080 --redis redis://cache`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			ids, err := readInput(cmd.Context(), a, args[0], menufile.ReadIDs)
			if err != nil {
				return err
			}
			return a.warmMenus(cmd.Context(), c, ids)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&c.Servers, "servers", nil, "the menu servers, as http://HOST:PORT, separated by commas")
	redisFlags(fl, &c.Redis, "the Redis of all proxies")
	menuDictionaryFlag(fl, &c.Dictionaries)
	fl.IntVar(&c.Concurrent, "concurrent", c.Concurrent, "look-ups under way at one time, 1 to 256: fewer spare the database")
	return cmd
}

// warmMenus fills Redis, and says what came of it, also if that failed.
func (a *app) warmMenus(ctx context.Context, c serve.WarmConfig, ids []int64) error {
	began := time.Now()
	bar := newCountBar(a.Stderr, a.Terminal, "ids")
	did, err := serve.Warm(ctx, c, ids, bar.set)
	bar.close()
	if did.Keys() > 0 {
		fmt.Fprintf(a.Stdout, "%s: %d menus filled in, %d there already, %d unknown ids, %d failed, %d not tried (%.1f s)\n",
			redact.Address(c.Redis), did.Filled, did.There, did.Absent, did.Failed, int64(len(ids))-did.Keys(), time.Since(began).Seconds())
	}
	if err != nil && did.Failed > 0 && ctx.Err() == nil {
		return fmt.Errorf("%d look-ups failed: %w; run it again when that is mended, what is there stays", did.Failed, err)
	}
	return err
}
