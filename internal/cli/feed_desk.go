package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"loadstone/block/account"
	"loadstone/block/dataset"
	"loadstone/system/feed"
	"loadstone/system/feed/admin"
	"loadstone/system/feed/feedfile"
	"loadstone/system/feed/stores"
)

// feedOperator is who changes posts by a command.
const feedOperator = "operator"

// feedAccounts are who may edit posts.
func (a *app) feedAccounts() *accounts {
	return &accounts{app: a, system: "feed", does: "edit posts", roles: "A moderator takes\nposts and comments down and puts posts back, an editor writes and edits posts, too.", file: account.File{Roles: admin.Roles()}}
}

// withDesk opens the store of a name for do.
func withDesk(ctx context.Context, text string, do func(d feed.Desk, name stores.Name) error) (err error) {
	name, err := storeName(stores.Parse, text, "--store")
	if err != nil {
		return err
	}
	store, err := name.Few().Open(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	desk, ok := store.(feed.Desk)
	if !ok {
		return fmt.Errorf("posts in %s cannot be edited", name)
	}
	return do(desk, name)
}

func (a *app) feedExportCommand() *cobra.Command {
	var store, to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all posts to a file, as 'feed import' reads it",
		Long: `Write all posts of a store, with everything about them, to a file that 'loadstone feed
import' reads: as they were at one time, complete, or not at all. Its name ends in .jsonl,
or in .jsonl.gz to compress it; - is the standard output.

Posts that are taken down are not in it, nor is the log of changes.`,
		Example: `  loadstone feed export --store sqlite:feed.db --to posts.jsonl.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plain := strings.TrimSuffix(to, ".gz"); to != "-" && !strings.HasSuffix(plain, ".jsonl") {
				return usagef("--to is %q: write a name that ends in .jsonl or .jsonl.gz, for CSV has no room for all of a post; or -", to)
			}
			return withDesk(cmd.Context(), store, func(d feed.Desk, _ stores.Name) error {
				return a.writeData(to, "posts", func(w io.Writer, progress dataset.Progress) error {
					return compressing(to, w, func(w io.Writer) error { return exportFeed(cmd.Context(), w, d, progress) })
				})
			})
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "store to read: "+stores.Forms)
	cmd.Flags().StringVar(&to, "to", "", "file to write")
	return cmd
}

func exportFeed(ctx context.Context, w io.Writer, d feed.Desk, progress dataset.Progress) error {
	out := bufio.NewWriter(w)
	if err := feedfile.Write(ctx, out, d, progress); err != nil {
		return err
	}
	return out.Flush()
}

func (a *app) feedTakeDownCommand() *cobra.Command {
	var store string
	var erase bool
	cmd := &cobra.Command{
		Use:   "take-down ID",
		Short: "Take a post out of the feed",
		Long: `Take a post out of the feed. When the command ends no server of the store shows it any
more, and nothing that was cached is used without asking one of them. A publisher that runs
takes it out of what is published within seconds; where none does, 'loadstone feed publish
--take-down' does that.

The post can be put back, in its old place: 'loadstone feed put-back', or at /admin. With
--erase it cannot: nothing is left of it but that it was erased. To take down what is taken
down already is no failure.

Every flag can be given as an environment variable as well: --store as FEED_STORE.`,
		Example: `  loadstone feed take-down 17 --store sqlite:feed.db`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := feed.Change{Action: feed.TakenDown}
			did, already := "is taken down", feed.ErrDown
			if erase {
				c.Action, did, already = feed.Erased, "is erased", nil
			}
			return a.changePost(cmd.Context(), store, args[0], c, did, already)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "store of the post: "+stores.Forms)
	cmd.Flags().BoolVar(&erase, "erase", false, "leave nothing of the post, for good")
	return cmd
}

func (a *app) feedPutBackCommand() *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use:   "put-back ID",
		Short: "Put a post that was taken down into the feed again",
		Long: `Put a post that was taken down into the feed again, in its old place. To put back what is
in the feed is no failure.

Every flag can be given as an environment variable as well: --store as FEED_STORE.`,
		Example: `  loadstone feed put-back 17 --store sqlite:feed.db`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changePost(cmd.Context(), store, args[0], feed.Change{Action: feed.PutBack}, "is put back", feed.ErrUp)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "store of the post: "+stores.Forms)
	return cmd
}

// changePost makes a change of the post with the id and says what it did. The error already says that there was
// nothing to do.
func (a *app) changePost(ctx context.Context, store, id string, c feed.Change, did string, already *feed.Error) error { //nolint:revive // what is done, and how it is said
	var ok bool
	if c.Post, ok = dataset.ParseID(id); !ok {
		return usagef("the id of the post is %.40q: write 1 to 18 digits, the first not 0", id)
	}
	c.Editor = feedOperator
	return withDesk(ctx, store, func(d feed.Desk, name stores.Name) error {
		done, err := d.Apply(ctx, c, nil, feed.Condition{})
		switch {
		case already != nil && errors.Is(err, already):
			fmt.Fprintf(a.Stdout, "post %d of %s %s already; nothing to do\n", c.Post, name, did)
		case errors.Is(err, feed.ErrNotFound):
			return fmt.Errorf("there is no post %d in %s", c.Post, name)
		case err != nil:
			return err
		default:
			fmt.Fprintf(a.Stdout, "post %d of %s, %q, %s\n", c.Post, name, done.Title, did)
		}
		if c.Action != feed.PutBack {
			fmt.Fprintf(a.Stdout, "no server of the store shows it any more; a publisher that runs takes it out of what is published within seconds, else 'loadstone feed publish --take-down %d'\n", c.Post)
		}
		return nil
	})
}
