package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"loadstone/block/cql"
	"loadstone/system/chat/messagestore"
	"loadstone/system/chat/reconcile"
)

func (a *app) chatReconcileCommand() *cobra.Command {
	c := reconcile.DefaultConfig()
	var store string
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Check that nothing accepted is lost",
		Long: `Check that nothing accepted is lost: talk in streams of a running chat and look on, as guests,
and compare what was acknowledged and what each viewer saw with the log. The server may be
killed during the check, as long as it is started again. With --stay it keeps serving the
counts until it is stopped. With --store what a sink has stored is compared with the log as well: each
message, whoever said it, is there once. Exit status 0 if all agrees and every message was accepted, 1 if not, or if
nothing was acknowledged.

The server bounds what guests of one address may do: see its --messages-per-user,
--messages-per-network, --guests-per-network and --max-viewers-per-address.

Every flag can be given as an environment variable as well: --url as CHAT_URL. A flag wins.`,
		Example: `  loadstone chat reconcile --url http://127.0.0.1:8097 --for 30s`,
		RunE:    checked(&c, func(ctx context.Context, c reconcile.Config) error { return a.reconcileChat(ctx, c, store) }),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.URL, "url", c.URL, "where the chat is, http://HOST:PORT")
	fl.Int64SliceVar(&c.Streams, "streams", c.Streams, "ids of streams to talk in")
	fl.IntVar(&c.Viewers, "viewers", c.Viewers, "number of viewers, spread over the streams")
	fl.IntVar(&c.Senders, "senders", c.Senders, "how many of them talk")
	fl.Float64Var(&c.Rate, "rate", c.Rate, "messages a second, in all")
	fl.DurationVar(&c.For, "for", c.For, "how long to talk")
	fl.DurationVar(&c.Settle, "settle", c.Settle, "how long the last message may take to the last viewer")
	fl.Int64Var(&c.MostSkipped, "most-skipped", c.MostSkipped, "how many messages may be announced to viewers as skipped, in all; -1 for any number")
	fl.BoolVar(&c.Analysed, "analysed", c.Analysed, "require that viewers are told what the analysis has made of the streams")
	fl.BoolVar(&c.Turns, "turns", c.Turns, "allow that another epoch begins, as where a replica of Redis takes over: what was acknowledged is looked for in all of the log that there is then")
	fl.StringVar(&store, "store", "", "Cassandra in which a sink stores the messages, "+cql.AddressForm+"; none if empty")
	fl.BoolVar(&c.Stay, "stay", c.Stay, "keep serving the metrics until stopped")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics; keep it private")
	return cmd
}

// Why the chat's reconciliation failed.
var (
	errBroken = errors.New("the chat does not keep what it promised")
	errSilent = errors.New("nothing was acknowledged, so nothing was checked")
	errUnsaid = errors.New("not all that was said was accepted, or nothing was shown to a viewer: a check of less than was asked for")
)

func (a *app) reconcileChat(ctx context.Context, c reconcile.Config, store string) error {
	if store != "" {
		m := messagestore.DefaultConfig()
		var err error
		if m.Cluster, err = cql.ParseAddress(store); err != nil {
			return usageError{err}
		}
		kept, err := messagestore.Open(ctx, m)
		if err != nil {
			return err
		}
		defer kept.Close()
		c.Kept = kept
	}
	r, err := reconcile.Run(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, r.Count)
	for _, v := range r.Wrong {
		fmt.Fprintf(a.Stdout, "%s: %s\n", v.Kind, v.Text)
	}
	switch {
	case r.Count.Balanced():
		return nil
	case r.Count.Acked == 0:
		return errSilent
	case r.Count.Wrong == 0:
		return errUnsaid
	default:
		return errBroken
	}
}
