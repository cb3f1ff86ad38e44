package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/web"
)

func (a *app) preloadCommand() *cobra.Command {
	var store, redis string
	cmd := &cobra.Command{
		Use:   "preload",
		Short: "Preload Redis with every student's page",
		Long: `Preload Redis with every student's page, so that servers with --cache redis or
memory+redis find even the first look-up of each student there. An empty or partly
filled database is an error.

A Redis that already has this data set, with its last corrections, is left unchanged. An
interrupted preload can simply be run again. Pages expire a day after they were written
or, if that is later, a day after the results are published; then servers read them from
the database one by one, and a preload fills Redis again. A corrected page, and a page
of a data set that was replaced, is never served from Redis. Redis also stores the access
codes: keep it as private as the database.

Every flag can be given as an environment variable as well: --redis as
RESULTS_REDIS.`,
		Example: `  loadstone results preload --store postgres://results@db/results --redis redis://cache:6379`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.preload(cmd.Context(), store, redis) },
	}
	fl := cmd.Flags()
	fl.StringVar(&store, "store", "", "database to read: sqlite:PATH or postgres://USER@HOST/DATABASE")
	redisFlags(fl, &redis, "Redis to fill")
	return cmd
}

// preload fills Redis with the database that --store names.
func (a *app) preload(ctx context.Context, store, redis string) error {
	if err := pagecache.CheckURL(redis); err != nil {
		return usagef("--redis: %w", err)
	}
	return readDatabase(ctx, store, "--store", func(db results.Database) error {
		began := time.Now()
		bar := newCountBar(a.Stderr, a.Terminal, "pages")
		written, err := pagecache.Preload(ctx, redis, db, bar.set)
		bar.close()
		if err != nil {
			return err
		}
		shown, origin := pagecache.Redact(redis), db.Meta().Origin
		if written == 0 {
			fmt.Fprintf(a.Stdout, "%s already has the pages of %s; nothing to do\n", shown, origin)
			return nil
		}
		fmt.Fprintf(a.Stdout, "%s has the pages of %s: %d written (%.1f s)\n", shown, origin, written, time.Since(began).Seconds())
		return nil
	})
}

func (a *app) pageCommand() *cobra.Command {
	var down bool
	var language string
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Print a page for a load balancer to show",
		Long: `Print the page that tells students that the service is down, for a balancer to show
when no server answers. It is one file of HTML that needs nothing else.`,
		Example: `  loadstone results page --down > down.html`,
		RunE: func(*cobra.Command, []string) error {
			if !down {
				return usagef("results page: write --down; it is the only page that is printed")
			}
			html, err := web.DownPage(language)
			if err != nil {
				return usagef("--language %s: %w", language, err)
			}
			_, err = a.Stdout.Write(html)
			return err
		},
	}
	cmd.Flags().BoolVar(&down, "down", false, "the page for a service that is down")
	cmd.Flags().StringVar(&language, "language", "en", "its language")
	return cmd
}
