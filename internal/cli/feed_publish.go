package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/objects"
	"loadstone/system/feed/serve"
	"loadstone/system/feed/snapshot"
	"loadstone/system/feed/snapshot/publish"
	"loadstone/system/feed/stores"
)

// publishing is what 'feed publish' does once, in place of going on.
type publishing struct {
	once, force bool
	rollBack    uint64
	takeDown    int64
}

func (p publishing) goesOn() bool { return !p.once && p.rollBack == 0 && p.takeDown == 0 }

// check finds what the flags ask for in vain.
func (p publishing) check(given func(flag string) bool) error {
	n := 0
	for _, flag := range []string{"once", "roll-back", "take-down"} {
		if given(flag) {
			n++
		}
	}
	switch {
	case n > 1:
		return usagef("--once, --roll-back and --take-down are three things: give one of them")
	case given("roll-back") && p.rollBack < 1:
		return usagef("--roll-back is 0: write the number of a version")
	case given("take-down") && p.takeDown < 1:
		return usagef("--take-down is %d: write the id of a post", p.takeDown)
	case p.force && !p.once:
		return usagef("--force is for one publication: give --once with it")
	}
	return nil
}

// do does it, and says what for.
func (p publishing) do(ctx context.Context, by *publish.Publisher) (s *snapshot.Snapshot, did string, err error) {
	switch {
	case p.takeDown != 0:
		s, err = by.TakeDown(ctx, p.takeDown)
		return s, fmt.Sprintf("without post %d, and earlier versions are gone", p.takeDown), err
	case p.rollBack != 0:
		s, err = by.RollBack(ctx, p.rollBack)
		return s, fmt.Sprintf("is what version %d was; a publisher that runs will publish what the store has", p.rollBack), err
	}
	s, err = by.Once(ctx, snapshot.Options{Force: p.force})
	return s, "is what the store has", err
}

func (a *app) feedPublishCommand() *cobra.Command {
	c := serve.DefaultPublisherConfig()
	var once publishing
	var keys string
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish a feed as a snapshot, again and again",
		Long: `Publish the newest posts, with everything about them, as immutable objects and one small
manifest that names them: for 'loadstone feed edge', which needs no database. Versions come
every five minutes; if nothing has changed, none does. Any number of publishers may run at
once, and one that is killed leaves nothing behind that readers see.

A store of snapshots is written directory:DIR, or s3:https://HOST/BUCKET, where it may go on
with /PREFIX. The keys of S3 are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in a file
as AWS's tools have it (--keys). AWS_REGION is us-east-1 unless it is set.

The admin address has /metrics, /healthz, and /readyz, which says whether the feed was
published lately. A snapshot that shrank by half is refused: it is more often a mistake.
What editors take down is published within seconds, and versions that had it are deleted.

Every flag can be given as an environment variable as well: --to as FEED_TO. A flag wins.`,
		Example: `  loadstone feed publish --store sqlite:feed.db --to directory:snapshots

  # once; also if it shrank by half
  loadstone feed publish --store sqlite:feed.db --to directory:snapshots --once --force

  # to S3
  loadstone feed publish --store postgres://feed@db/feed --to s3:https://s3.example.org/feed --keys keys

  # post 17 is to be seen nowhere any more: it goes from the store, too
  loadstone feed publish --store sqlite:feed.db --to directory:snapshots --take-down 17

  # what is published is wrong, and version 41 was right
  loadstone feed publish --store sqlite:feed.db --to directory:snapshots --roll-back 41`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Keys, err = a.objectKeys(keys); err != nil {
				return err
			}
			if err := once.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			if once.goesOn() {
				return serve.RunPublisher(cmd.Context(), c, a.logger())
			}
			warnings := slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			return serve.Publish(cmd.Context(), c, warnings, func(p *publish.Publisher) error {
				s, did, err := once.do(cmd.Context(), p)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stdout, "version %d, %d pages with %d bytes, %s\n", s.Manifest.Version, len(s.Pages()), len(s.Whole()), did)
				return nil
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.From, "store", c.From, "what to publish: "+stores.Forms)
	fl.StringVar(&c.To, "to", "", "where snapshots go, made if it is not there: "+stores.ObjectForms)
	keysFlag(fl, &keys)
	fl.IntVar(&c.Posts, "posts", c.Posts, "how many of the newest posts are published")
	fl.DurationVar(&c.Every, "every", c.Every, "time between two publications")
	fl.DurationVar(&c.Keep, "keep", c.Keep, "how long earlier versions can be read and rolled back to")
	fl.BoolVar(&once.once, "once", false, "publish once, and end")
	fl.BoolVar(&once.force, "force", false, "with --once: also publish what shrank by half, and in place of a manifest that is broken")
	fl.Uint64Var(&once.rollBack, "roll-back", 0, "publish this earlier version again, and end")
	fl.Int64Var(&once.takeDown, "take-down", 0, "take down the post with this id, in the store and in all that is published, and end")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics, probes and profiles; keep it private")
	fl.StringVar(&c.AdminToken, "admin-token", "", "what requests for profiles must send; without one they are refused; set it in the environment, for every user of the host sees flags")
	completing(cmd, "to", completeObjects)
	return cmd
}

func (a *app) feedEdgeCommand() *cobra.Command {
	c := serve.DefaultEdgeConfig()
	var keys string
	cmd := &cobra.Command{
		Use:   "edge",
		Short: "Serve a published feed over HTTP",
		Long: `Serve what 'loadstone feed publish' has published, from memory and compressed:

  /feed/manifest.json       which version is current
  /feed/pages/1.json        posts with everything about them, the newest first; "next" names
                            the page behind it
  /feed/notices.json
  /feed/whole/SHA-256       all pages as one text, for those who have an earlier one as a
                            delta from it (RFC 9842)
  /feed/objects/17/SHA-256  a page that does not change any more

and /healthz and /readyz; on the admin address /metrics. The store is asked for something new
every --interval and by no request. While it does not answer, the last version is served.
What was taken down is gone after an interval here. Caches on the way show a page for up to
two more intervals, and what does not change for as long as --shared.

Every flag can be given as an environment variable as well: --from as FEED_FROM. A flag
wins. SIGTERM stops the edge without losing a request.`,
		Example: `  loadstone feed edge --from directory:snapshots --listen 127.0.0.1:8097
  curl --compressed http://127.0.0.1:8097/feed/pages/1.json`,
		RunE: served(a, &c, serve.RunEdge, func() (err error) {
			c.Keys, err = a.objectKeys(keys)
			return err
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles")
	fl.StringVar(&c.From, "from", "", "where snapshots are: "+stores.ObjectForms)
	keysFlag(fl, &keys)
	fl.DurationVar(&c.Edge.Interval, "interval", c.Edge.Interval, "time between two looks for a new version, and how long caches may keep a page")
	fl.DurationVar(&c.Edge.StaleIfError, "stale-if-error", c.Edge.StaleIfError, "how long the last version is served while the store does not answer")
	fl.DurationVar(&c.Edge.Shared, "shared", c.Edge.Shared, "how long caches on the way may keep what does not change, before they ask whether it was taken down")
	completing(cmd, "from", completeObjects)
	return cmd
}

// completeObjects completes the kinds of stores of snapshots.
var completeObjects = cobra.FixedCompletions([]cobra.Completion{"directory:", "s3:https://"}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp)

func keysFlag(fl *pflag.FlagSet, file *string) {
	fl.StringVar(file, "keys", "", "file with the keys of S3, in place of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
}

// objectKeys are the keys of S3 in a file, or else in the environment.
func (a *app) objectKeys(file string) (keys stores.Keys, err error) {
	keys = stores.Keys{Access: a.Getenv("AWS_ACCESS_KEY_ID"), Secret: a.Getenv("AWS_SECRET_ACCESS_KEY"), Region: cmp.Or(a.Getenv("AWS_REGION"), a.Getenv("AWS_DEFAULT_REGION"))}
	if file != "" {
		if keys.Access, keys.Secret, err = objects.ReadKeys(file); err != nil {
			err = usagef("--keys: %w", err)
		}
	}
	return keys, err
}
