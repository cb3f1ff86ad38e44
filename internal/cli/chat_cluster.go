package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/serve/cluster"
)

// databaseFlags are the flags of the database that several servers share.
func databaseFlags(fl *pflag.FlagSet, c *registry.Config) {
	fl.StringVar(&c.Address, "database", "", "database with the streams that several servers share, "+registry.AddressForm)
	secretFlags(fl, "database-password", &c.Password, "its password, where the address has none")
}

// clusterFlags are the flags of a log that several servers share.
func clusterFlags(fl *pflag.FlagSet, c *cluster.Config) {
	fl.StringSliceVar(&c.Topics.Brokers, "kafka", nil, "brokers, host:port, of the Kafka that has the log of several servers; without it the log is this server's own, in a directory")
	fl.DurationVar(&c.Topics.Linger, "kafka-linger", c.Topics.Linger, "how long what is said waits for more to go with it to Kafka")
	fl.Int32Var(&c.Topics.Partitions, "kafka-partitions", c.Topics.Partitions, "partitions of topics that are made")
	fl.StringVar(&c.Broadcast.Address, "redis", "", "Redis that several servers share, "+broadcast.AddressForm)
	secretFlags(fl, "redis-password", &c.Broadcast.Password, "the password of Redis, where the address has none")
	fl.IntVar(&c.Broadcast.Keep, "redis-history", c.Broadcast.Keep, "messages of a stream that Redis keeps")
	databaseFlags(fl, &c.Registry)
}

// seedShared adds streams to a database that several servers share.
func (a *app) seedShared(ctx context.Context, c registry.Config, streams []chat.Stream, messages int) (err error) {
	if messages > 0 {
		return usagef("messages are invented only in a log of a server's own: leave out --messages, or --database")
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	c.Failed = func(err error) { fmt.Fprintln(a.Stderr, err) }
	r, err := registry.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.AddStreams(streams); err != nil { //nolint:contextcheck // each has a timeout of its own
		return err
	}
	fmt.Fprintf(a.Stdout, "the database has %d streams\n", len(r.Streams()))
	return nil
}
