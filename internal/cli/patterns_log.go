package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"loadstone/system/patterns/event"
	"loadstone/system/patterns/event/broker"
	"loadstone/system/patterns/event/eventlog"
	"loadstone/system/patterns/event/reconcile"
)

// patternsLogCommand is the log service of the pattern "sync to async".
func (a *app) patternsLogCommand() *cobra.Command {
	c := eventlog.DefaultConfig()
	events := "off"
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Run the log service: store events from calls or from a queue",
		Long: `Store events, each exactly once by its id. The service gets each event by a call (POST
/events), or reads them from the queue of --events at its own pace and stores them in
batches. No event is answered or acknowledged before it is on disk.

Every flag can be given as an environment variable as well: --store as
PATTERNS_STORE. A flag wins.`,
		Example: `  loadstone patterns log --store events.db
  loadstone patterns log --store events.db --events nats://127.0.0.1:4222`,
		RunE: served(a, &c, eventlog.Run, func() error {
			if events == "off" {
				return nil
			}
			target, err := event.ParseTarget(events)
			if err != nil {
				return usageError{err}
			}
			// The bound of a queue that is there is the producers' to change.
			target.SetCapacity = false
			c.Queue = &target
			return nil
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for calls")
	adminFlags(fl, &c.Config, "profiles")
	fl.StringVar(&c.Store, "store", c.Store, "file of the database")
	fl.StringVar(&events, "events", events, "queue to take events from: off, nats://BROKER:PORT or kafka://BROKER:PORT,...")
	fl.StringVar((*string)(&c.Commit), "commit", string(c.Commit), "how calls are written: each in its own transaction, or group for concurrent ones in one")
	fl.IntVar(&c.Rounds, "rounds", c.Rounds, "work per event: how often its body is hashed")
	return cmd
}

// patternsBrokerCommand is the embedded broker as a process of its own.
func (a *app) patternsBrokerCommand() *cobra.Command {
	c := broker.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker: a durable queue",
		Long: `Run a durable queue for 'patterns serve' and 'patterns log': NATS JetStream with its
files in --dir. A message is acknowledged when it is on disk; with --flush off, when
the kernel has it, which survives a crash of the process but not a loss of power.

The capacity of the queue is stored with it, by default 50,000 events. A
'patterns serve' with --events nats://...?capacity=N changes it; the broker logs the
change. A directory can have only one broker at a time.

Every flag can be given as an environment variable as well: --dir as PATTERNS_DIR. A
flag wins.`,
		Example: `  loadstone patterns broker --dir broker
  loadstone patterns serve --events nats://127.0.0.1:4222`,
		RunE: served(a, &c, broker.Run),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Addr, "listen", c.Addr, "address for producers and consumers; keep it private")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics; keep it private")
	fl.StringVar(&c.Dir, "dir", c.Dir, "directory of its files")
	fl.Int64Var(&c.MaxBytes, "max-bytes", c.MaxBytes, "maximum size of its files, in bytes")
	fl.Var(onOff(&c.Flush), "flush", "flush each message to disk before it is acknowledged: on or off")
	return cmd
}

// patternsReconcileCommand checks that accepted and stored are the same.
func (a *app) patternsReconcileCommand() *cobra.Command {
	c := reconcile.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Check that every accepted event is stored",
		Long: `Check that every accepted event is stored: send events with unique ids to 'patterns
serve', each repeatedly until it is answered, look up each accepted event in 'patterns
log', and all of them once more at the end. Any process may be killed during the check,
as long as it is started again. With --stay it keeps looking them up and serving the
counts until it is stopped. Exit status 0 if all accepted events are stored, 1 if not,
or if none was accepted.

Every flag can be given as an environment variable as well: --app as PATTERNS_APP. A
flag wins.`,
		Example: `  loadstone patterns reconcile --app 127.0.0.1:8080 --log 127.0.0.1:8081 --for 30s`,
		RunE:    checked(&c, a.runReconcile),
	}
	fl := cmd.Flags()
	fl.StringVar(&c.App, "app", c.App, "address of 'patterns serve', HOST:PORT")
	fl.StringVar(&c.Log, "log", c.Log, "address of 'patterns log', HOST:PORT")
	fl.IntVar(&c.Rate, "rate", c.Rate, "events a second")
	fl.DurationVar(&c.For, "for", c.For, "how long to send events")
	fl.DurationVar(&c.Settle, "settle", c.Settle, "how long an accepted event may take to be stored")
	fl.BoolVar(&c.Stay, "stay", c.Stay, "keep looking all events up and serving the metrics until stopped")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics; keep it private")
	return cmd
}

// Why a reconciliation failed.
var (
	errUnbalanced = errors.New("some accepted events are not stored")
	errNothing    = errors.New("no event was accepted, so nothing was checked")
)

func (a *app) runReconcile(ctx context.Context, c reconcile.Config) error {
	count, err := reconcile.Run(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, count)
	switch {
	case count.Balanced():
		return nil
	case count.Accepted == 0:
		return errNothing
	default:
		return errUnbalanced
	}
}
