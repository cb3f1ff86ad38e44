package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/stores"
)

const instantForm = "such as 2026-07-20T08:00:00+03:00"

// publishAtHelp is the help of --publish-at.
const publishAtHelp = "time before which no result is shown, " + instantForm + " (default: that of the store, or none)"

func (a *app) embargoCommand() *cobra.Command {
	var store, until, by string
	var lift bool
	cmd := &cobra.Command{
		Use:   "embargo",
		Short: "Show or change when the results in a store come out",
		Long: `Show or change when the results in a store come out. Before that nothing of them is
shown: neither a result nor which ids exist. The time is kept in the store, so servers
need not be told: all of them follow within about two seconds, wherever they were
started, and one that has had no answer from its store yet shows nothing.

Whether the time has come is for the clock of PostgreSQL to say. With SQLite and
snapshots it is the clock of the machine that serves them: keep it synchronised.

'loadstone results publish' gives a snapshot the time of its database; change both if
you serve both. An exported tree knows no time: do not put it on a web server earlier.
PostgreSQL and SQLite keep who changed it, and when, in the table schedule.`,
		Example: `  loadstone results embargo --store sqlite:results.db --until 2126-07-20T08:00:00+03:00
  loadstone results embargo --store sqlite:results.db

  # now
  loadstone results embargo --store sqlite:results.db --lift`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, store, "--store")
			if err != nil {
				return err
			}
			at, err := parseInstant(until, "--until")
			if err != nil {
				return err
			}
			choose := results.Until(at)
			switch {
			case lift && until != "":
				return usagef("--until and --lift: write one of them")
			case lift:
				choose = results.Lift
			case until == "":
				return a.printPublication(cmd.Context(), name)
			}
			return a.reschedule(cmd.Context(), name, by, choose)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&store, "store", "", "the store: "+stores.Forms)
	fl.StringVar(&until, "until", "", "time before which no result is shown, "+instantForm)
	fl.BoolVar(&lift, "lift", false, "let the results out now")
	fl.StringVar(&by, "by", "", "who changes it, for the table schedule (default: the current user)")
	return cmd
}

// parseInstant takes an instant, the value of a flag; a zero one if it is empty.
func parseInstant(text, flag string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("%s %q is no instant; write one with its zone, %s", flag, text, instantForm)
	}
	return at, nil
}

// reschedule changes when the results come out, and says when that is.
func (a *app) reschedule(ctx context.Context, name stores.Name, by string, choose results.Reschedule) error {
	if by == "" {
		by = userName()
	}
	err := name.Reschedule(ctx, by, choose)
	if past, ok := errors.AsType[*results.PastError](err); ok {
		return usagef("--until %w; write one that is to come, or --lift", past)
	}
	if err != nil {
		return err
	}
	return a.printPublication(ctx, name)
}

// printPublication says when the results in a store come out.
func (a *app) printPublication(ctx context.Context, name stores.Name) error {
	p, err := name.Publication(ctx)
	if err != nil {
		return err
	}
	at := p.At.Format(time.RFC3339)
	switch {
	case !p.Out:
		fmt.Fprintf(a.Stdout, "%s: nothing is shown before %s, in %v\n", name, at, max(p.Left, 0).Round(time.Second))
	case p.At.IsZero():
		fmt.Fprintf(a.Stdout, "%s: the results are out\n", name)
	default:
		fmt.Fprintf(a.Stdout, "%s: the results are out since %s\n", name, at)
	}
	return nil
}

// fillUntil fills a store with students of whom nothing is shown before an instant, zero
// for none. If the store has one that is later, it keeps that.
func (a *app) fillUntil(ctx context.Context, name stores.Name, source dataset.Source[results.Student], at time.Time) error {
	have, err := name.Publication(ctx)
	now := time.Now()
	empty := errors.Is(err, results.ErrMissing) || errors.Is(err, results.ErrCorrupt)
	if empty && !at.IsZero() && !at.After(now) {
		return usagef("--publish-at %w; leave it out if everybody may see the results at once", &results.PastError{At: at, Now: now})
	}
	latest := at
	if have.At.After(at) {
		latest = have.At
	}
	if err := a.fill(ctx, name, results.Embargoed(source, latest)); err != nil {
		return err
	}
	return a.keepBack(ctx, name, latest)
}

// keepBack keeps the results in a filled store back until an instant, see
// results.NotBefore, and says so.
func (a *app) keepBack(ctx context.Context, name stores.Name, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	return a.reschedule(ctx, name, "", results.NotBefore(at))
}
