package cli

import (
	"github.com/spf13/cobra"

	"loadstone/block/cql"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/serve/sink"
)

func (a *app) chatSinkCommand() *cobra.Command {
	c := sink.DefaultConfig()
	var store string
	cmd := &cobra.Command{
		Use:   "sink",
		Short: "Store in Cassandra what several servers accepted",
		Long: `Store in Cassandra what several servers of a chat accepted: it reads the topic raw-chats, and commits what is
stored. Any number of sinks share the work, and one that is killed loses nothing and stores nothing twice. A
record that is no message is put aside, to the topic raw-chats-dead, and a record of analysis-result or
summary-results that is no result to analysis-result-dead or summary-results-dead.

On the admin address are /metrics, /healthz, and /readyz, which says whether the last attempt to store succeeded.

Every flag can be given as an environment variable as well: --kafka as CHAT_KAFKA. A flag wins.`,
		Example: `  loadstone chat sink --kafka 10.0.0.1:9092 --redis redis://10.0.0.2 --store cassandra:10.0.0.4/chat`,
		RunE: served(a, &c, sink.Run, func() (err error) {
			if c.Store.Cluster, err = cql.ParseAddress(store); err != nil {
				return usageError{err}
			}
			return nil
		}),
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&c.Topics.Brokers, "kafka", nil, "brokers of Kafka, host:port")
	fl.StringVar(&c.Broadcast.Address, "redis", "", "Redis that the servers share, "+broadcast.AddressForm)
	secretFlags(fl, "redis-password", &c.Broadcast.Password, "the password of Redis, where the address has none")
	fl.StringVar(&store, "store", "", "Cassandra with the messages, "+cql.AddressForm)
	fl.IntVar(&c.Store.Batch, "batch", c.Store.Batch, "messages of one stream that are written together")
	fl.IntVar(&c.Store.InFlight, "in-flight", c.Store.InFlight, "batches that are being written at a time")
	fl.IntVar(&c.Most, "read", c.Most, "messages that are read, stored and committed together")
	fl.DurationVar(&c.Linger, "linger", c.Linger, "how long messages wait for others to be read together")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics and probes; keep it private")
	return cmd
}
