package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"loadstone/block/account"
	"loadstone/block/atomicfile"
	"loadstone/block/compress"
	"loadstone/block/dataset"
	"loadstone/system/feed"
	"loadstone/system/feed/admin"
	"loadstone/system/feed/feedfile"
	"loadstone/system/feed/serve"
	"loadstone/system/feed/stores"
)

func (a *app) feedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "feed",
		GroupID: "system",
		Short:   "A mobile app's feed: seed or import, serve, publish",
		Long: `The feed of an organisation's app: posts with media, authors, comments and reactions,
asked for one by one, in bundles, or in batches.

A store is written sqlite:FILE, a database within this program, or as the address of a
PostgreSQL database, postgres://USER@HOST/DATABASE.`,
		Example: `  # invented posts, and their page at http://127.0.0.1:8095/app
  loadstone feed seed --store sqlite:feed.db --posts 10000 --seed 1
  loadstone feed serve --store sqlite:feed.db --listen 127.0.0.1:8095

  # your own
  loadstone feed import posts.csv --store sqlite:own.db

  # as snapshots, for an edge without a database
  loadstone feed publish --store sqlite:feed.db --to directory:snapshots
  loadstone feed edge --from directory:snapshots --listen 127.0.0.1:8097`,
	}
	cmd.AddCommand(a.feedImportCommand(), a.feedAccounts().command(), a.feedSecretsCommand(), a.healthCommand("feed"))
	cmd.AddCommand(a.withEnv("FEED_", a.feedSeedCommand(), a.feedExportCommand(), a.feedTakeDownCommand(), a.feedPutBackCommand(), a.feedServeCommand(), a.feedPublishCommand(), a.feedEdgeCommand())...)
	cmd.RunE = needsCommand
	return cmd
}

func (a *app) feedSeedCommand() *cobra.Command {
	var store, file string
	var count int64
	var seed uint64
	var keep bool
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Fill a store with invented posts, or with yours",
		Long: `Fill a store with invented posts: the same seed gives the same posts, of which every 63rd
has no media. A store that has them already is left unchanged, one with other posts is
refused, and an interrupted seed leaves an empty store.

Every flag can be given as an environment variable as well: --store as FEED_STORE.`,
		Example: `  loadstone feed seed --store sqlite:feed.db --posts 10000 --seed 1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				return a.fillFeedFrom(cmd, store, file, keep)
			}
			source, err := feed.NewGenerator(seed, count)
			if err != nil {
				return usageError{err}
			}
			return a.fillFeed(cmd, store, source, keep)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	fl.Int64Var(&count, "posts", feed.DefaultCount, "number of posts")
	fl.Uint64Var(&seed, "seed", 1, "seed of the invented posts")
	fl.StringVar(&file, "file", "", "file of posts to use instead of invented ones, as for 'feed import'; none if empty")
	fl.BoolVar(&keep, "keep-imported", false, "leave a store with imported posts unchanged, whichever they are")
	return cmd
}

func (a *app) feedImportCommand() *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Fill a store with the posts of a file",
		Long: `Fill a store with the posts of a file, whose name says its format.

.csv has a post a row, in columns of these names, of which the last five may be left out:

  id,published,title,text,author_id,author,role,team,pinned,image,alt

.jsonl has a post a line, with everything about it:

  {"id":1,"published":"2026-01-31T08:00:00Z","title":"Hello","text":"...","pinned":false,
   "author":{"id":7,"name":"Noor","role":"","team":"","about":"","photo":"https://..."},
   "media":[{"kind":"image","url":"https://...","alt":"","width":800,"height":600}],
   "reactions":[{"kind":"like","count":3}],
   "comments":[{"author":"Olga","published":"2026-01-31T09:00:00Z","text":"..."}]}

Either may be compressed: .csv.gz, .jsonl.gz. An import is complete or stores nothing: mistakes
are reported with their lines.`,
		Example: `  loadstone feed import posts.csv --store sqlite:own.db`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.fillFeedFrom(cmd, store, args[0], false) },
	}
	cmd.Flags().StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	return cmd
}

func (a *app) feedSecretsCommand() *cobra.Command {
	return a.dirSecretsCommand("feed", `  DIR/password, DIR/pgpass   the owner of the PostgreSQL database
  DIR/s3, DIR/keys           S3, for the account feed; the second for --keys of 'feed publish'
  DIR/session                what signs sessions, for --session-key-file
  DIR/accounts               who may edit posts, for --accounts: the account admin, whose
                             password is in DIR/admin`, feedSecrets)
}

// feedSecrets generates the passwords that are not there, and writes what follows from them.
func feedSecrets(dir string) (made bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	follows := func(name, form string) func(password string) error {
		return func(password string) error {
			return atomicfile.Write(filepath.Join(dir, name), fmt.Appendf(nil, form, password), secretMode)
		}
	}
	for _, s := range []struct {
		password string
		follows  func(password string) error
	}{
		{"password", follows("pgpass", "*:*:*:*:%s\n")},
		{"s3", follows("keys", "[default]\naws_access_key_id = feed\naws_secret_access_key = %s\n")},
		{"session", func(string) error { return nil }},
		{"admin", func(password string) error {
			return ensureAdmin(account.File{Path: filepath.Join(dir, "accounts"), Roles: admin.Roles()}, admin.Editor, password)
		}},
	} {
		password, fresh, err := ensurePassword(filepath.Join(dir, s.password), secretMode)
		if err == nil {
			err = s.follows(password)
		}
		if err != nil {
			return made, err
		}
		made = made || fresh
	}
	return made, nil
}

// fillFeedFrom is fillFeed of a file.
func (a *app) fillFeedFrom(cmd *cobra.Command, store, path string, keep bool) error {
	file, err := feedfile.Open(cmd.Context(), path)
	if errors.Is(err, feed.ErrInput) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	return a.fillFeed(cmd, store, file, keep)
}

// fillFeed puts the source into a store, and says what came of it. With keep it leaves one
// alone that was filled with posts that are not made up.
func (a *app) fillFeed(cmd *cobra.Command, text string, source dataset.Source[feed.Entry], keep bool) (err error) {
	name, err := storeName(stores.Parse, text, "--store")
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	store, err := name.Few().Make(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if have, err := store.Meta(ctx); err == nil && keep && !feed.MadeUp(have) {
		fmt.Fprintf(a.Stdout, "%s has posts that were imported, %s; they are kept\n", name, have.Origin)
		return nil
	}
	return a.filling(name, "posts", source.Meta().Origin, func(progress dataset.Progress) (f filled, err error) {
		f.already, err = store.Fill(ctx, source, progress)
		if errors.Is(err, feed.ErrOccupied) {
			err = leftAsItIs(err)
		}
		return f, err
	})
}

func (a *app) feedServeCommand() *cobra.Command {
	c := serve.DefaultConfig()
	var keys string
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a feed over HTTP",
		Long: `Serve a feed over HTTP: GET /feed, /posts/{id}/media, /author and /responses, /bundle and
/notices, all in /openapi.json; the page /app, /healthz and /readyz; on the admin address
/metrics for Prometheus, and with FEED_ADMIN_TOKEN set, for requests that send it,
/debug/pprof.

--serializer and --queries change what an answer costs, and none of its bytes. With
--compression answers are compressed for those who take it, the best-liked coding first.

With --accounts people edit posts at /admin: they write them, take them and their comments
down, and see who changed what. 'feed account' makes accounts.

With --snapshots this server publishes the feed as well, as 'loadstone feed publish' does,
and serves what is published below /feed/, as 'loadstone feed edge' does.

Every flag can be given as an environment variable as well: --admin-listen as
FEED_ADMIN_LISTEN. A flag wins. SIGTERM stops the server without losing a request.`,
		Example: `  loadstone feed serve --store sqlite:feed.db --listen 127.0.0.1:8095
  loadstone feed serve --store sqlite:feed.db --snapshots directory:snapshots`,
		RunE: served(a, &c, serve.Run, func() (err error) {
			if c.Keys, err = a.objectKeys(keys); err == nil {
				c.Proxies, err = parseProxies(proxies)
			}
			return err
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles")
	fl.StringVar(&c.Store, "store", c.Store, "what to serve: "+stores.Forms)
	fl.StringVar((*string)(&c.Serializer), "serializer", string(c.Serializer), "what makes JSON: "+feed.Serializers)
	fl.Var(codings{&c.Codings}, "compression", "how answers are compressed: "+compress.Forms)
	fl.Var(either{&c.Each, "batch", "each", "write batch or each"}, "queries", "how the details of several posts are read: batch, in one query, or each, in one for each post")
	fl.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "size of the memory cache of a SQLite store, which it asks at each reading whether anything has changed; 0 for none")
	fl.DurationVar(&c.CursorTTL, "cursor-ttl", c.CursorTTL, "how long a cursor of the list is good")
	fl.Var(onOff(&c.Page), "page", "the page at /app: on or off")
	officeFlags(fl, &c.Settings, &proxies, "feed", "edit posts")
	fl.StringVar(&c.Snapshots, "snapshots", "", "where this server publishes the feed, to serve it below /feed/: "+stores.ObjectForms+"; nowhere if empty")
	fl.DurationVar(&c.PublishEvery, "publish-every", c.PublishEvery, "time between two publications, with --snapshots")
	keysFlag(fl, &keys)
	completing(cmd, "snapshots", completeObjects)
	completing(cmd, "serializer", cobra.FixedCompletions([]cobra.Completion{string(feed.Append), string(feed.Goccy), string(feed.Standard), string(feed.Maps)}, cobra.ShellCompDirectiveNoFileComp))
	completing(cmd, "queries", cobra.FixedCompletions([]cobra.Completion{"batch", "each"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// codings is the flag --compression.
type codings struct{ *compress.Codings }

func (c codings) String() string {
	if c.Codings == nil {
		return ""
	}
	return c.Codings.String()
}

// Set is for pflag.
func (c codings) Set(text string) (err error) {
	*c.Codings, err = compress.Parse(text)
	return err
}

// Type is for pflag, which shows it in the help.
func (codings) Type() string { return "string" }
