package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/serve"
)

// runShared is one of several servers: its address, and those of Kafka, Redis and the database.
func runShared(ctx context.Context, address, kafka, redis, database string) error {
	c := serve.DefaultConfig()
	c.Listen, c.AdminListen, c.Drain, c.Hub.Tick = address, "127.0.0.1:0", 0, 5*time.Millisecond
	c.Cluster.Topics.Brokers, c.Cluster.Broadcast.Address, c.Cluster.Registry.Address = []string{kafka}, "redis://"+redis, database
	const many = 100_000
	c.Cluster.Broadcast.Keep, c.Room.Bytes = many, 1<<20 // more than is said
	c.MessagesPerUser, c.MessagesPerNetwork, c.GuestsPerNetwork, c.Hub.MaxPerAddress = 1000, many, many, many
	return serve.Run(ctx, c, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// Of several servers one is killed again and again, and then the broker, while people talk at both: nothing that was
// acked is lost, and all viewers, wherever they are, see all of it once and in one order.
func TestServersAreKilled(t *testing.T) {
	t.Parallel()
	kafka, redis, db := servertest.Kafka(t), servertest.Redis(t), servertest.MariaDB(t)
	c := registry.DefaultConfig()
	c.Address, c.Timeout = db.Address(), time.Minute // a busy machine's database answers
	r, err := registry.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	streams, err := chat.InventStreams(2)
	if err := errors.Join(err, r.AddStreams(streams), r.Close()); err != nil {
		t.Fatal(err)
	}
	var servers []*servertest.Process
	var talks []*reconciliation
	for range 2 {
		address := servertest.Host() + ":8097"
		s := part(t, nil, address, "shared", address, kafka.Addr, redis.Addr(), db.Address())
		s.Start()
		servers = append(servers, s)
		talks = append(talks, begin(t, talk("http://"+address, 6, 4, 40)))
	}
	kills := 1
	if os.Getenv("LARGE") == "1" {
		kills = 10
	}
	kill(talks[0], servers[0], kills, 60)
	acked := talks[1].now().Acked
	kafka.Kill()
	kafka.Start()
	reach(t, "messages are acked again", func() bool { return talks[1].now().Acked >= acked+60 })
	for i, talk := range talks {
		t.Logf("server %d: %v", i+1, talk.balanced())
	}
}
