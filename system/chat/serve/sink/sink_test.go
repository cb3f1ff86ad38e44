package sink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"loadstone/block/cql"
	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/messagestore"
	"loadstone/system/chat/topics"
	"loadstone/system/chat/topics/topicstest"
)

const long = 2 * time.Minute // more than anything takes that does not hang

// parts are what the sink stands between.
type parts struct {
	kafka *servertest.KafkaBroker
	redis *servertest.RedisServer
	node  *servertest.CassandraNode
}

func (p *parts) config() Config {
	c := DefaultConfig()
	c.Topics.Brokers, c.Broadcast.Address, c.AdminListen = []string{p.kafka.Addr}, "redis://"+p.redis.Addr(), "127.0.0.1:0"
	c.Store.Cluster = cql.Address{Hosts: []string{p.node.Host}, Keyspace: "chat", Replication: 1}
	c.Linger = 10 * time.Millisecond
	return c
}

// opened opens the store, again for as long as the node does not answer in time: it has just started.
func (p *parts) opened(t *testing.T) *messagestore.Store {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		s, err := messagestore.Open(t.Context(), p.config().Store)
		if err == nil {
			t.Cleanup(s.Close)
			return s
		}
		if cql.KindOf(err) != cql.Unavailable || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// run runs a sink until stop is called. It is started again for as long as the store does not answer in time.
func (p *parts) run(t *testing.T) (stop func()) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		stop, err := p.start(t)
		if err == nil {
			return stop
		}
		if cql.KindOf(err) != cql.Unavailable || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// start is run with what became of a sink that did not come to store anything.
func (p *parts) start(t *testing.T) (stop func(), err error) {
	t.Helper()
	c := p.config()
	listening := make(chan struct{})
	c.Listening = func(net.Addr) { close(listening) }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c, slog.New(slog.DiscardHandler)) }()
	select {
	case <-listening:
	case err := <-ended:
		cancel()
		return nil, err
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop, nil
}

func (p *parts) write(t *testing.T, id string, at time.Time) {
	t.Helper()
	r := chat.Raw{Stream: 1, Message: chat.Message{At: at.UnixMilli(), Sender: "guest-a", Name: "Noor", ID: id, Text: "text " + id}}
	topicstest.Write(t, p.kafka.Addr, topics.Raw, r.Append(nil))
}

// stored waits until the store has so many messages.
func stored(t *testing.T, s *messagestore.Store, count int) []chat.Raw {
	t.Helper()
	for deadline := time.Now().Add(long); ; time.Sleep(50 * time.Millisecond) {
		found, err := s.Newest(t.Context(), 1, time.Now().Add(time.Hour), 100)
		if err == nil && len(found) >= count {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("the store has %d messages, want %d: %v", len(found), count, err)
		}
	}
}

// All in one test: the parts take half a minute to start.
func TestWhatIsAcceptedIsStoredOnce(t *testing.T) {
	t.Parallel()
	p := &parts{servertest.Kafka(t), servertest.Redis(t), servertest.Cassandra(t, servertest.CassandraConfig{CommitLog: "commitlog_sync: batch", JMX: true, LazySchema: true})}
	s := p.opened(t)
	stop := p.run(t)
	now := time.Now()
	for i := range 5 {
		p.write(t, fmt.Sprint(i), now)
	}
	p.write(t, "0", now.Add(time.Second)) // sent again
	topicstest.Write(t, p.kafka.Addr, topics.Raw, []byte("no message"))
	p.write(t, "5", now)
	stored(t, s, 6)
	if dead := topicstest.Read(t, p.kafka.Addr, topics.Dead, 1)[0]; string(dead.Value) != "no message" {
		t.Errorf("what is put aside is %q", dead.Value)
	}
	topicstest.Write(t, p.kafka.Addr, topics.Analysis, []byte(`{"stream":1,"type":"totals"}`))
	topicstest.Write(t, p.kafka.Addr, topics.Analysis, []byte(`{"stream":1,"type":"guesses"}`))
	if dead := topicstest.Read(t, p.kafka.Addr, topics.DeadAnalysis, 1)[0]; string(dead.Value) != `{"stream":1,"type":"guesses"}` {
		t.Errorf("what is put aside is %q", dead.Value)
	}
	topicstest.Write(t, p.kafka.Addr, topics.Summaries, []byte(`{"stream":1,"type":"totals"}`))
	if dead := topicstest.Read(t, p.kafka.Addr, topics.DeadSummaries, 1)[0]; string(dead.Value) != `{"stream":1,"type":"totals"}` {
		t.Errorf("what is put aside is %q", dead.Value)
	}
	// A store that is away: what is accepted meanwhile is stored when it is back.
	p.node.FlushSchema()
	p.node.Kill()
	p.write(t, "6", now)
	p.node.Start()
	stored(t, s, 7)
	// Another sink goes on where the first one was.
	stop()
	p.write(t, "7", now)
	p.write(t, "1", now.Add(2*time.Second)) // sent again, much later
	p.write(t, "8", now)
	p.run(t)
	found := stored(t, s, 9)
	seen := map[string]int{}
	for _, r := range found {
		seen[r.ID]++
	}
	for i := range 9 {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d is there %d times", i, n)
		}
	}
	if len(found) != 9 {
		t.Errorf("the store has %d messages, want 9", len(found))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	if c.Validate() == nil {
		t.Error("no addresses are enough")
	}
	if c.Broadcast.Keep != broadcast.MostKept {
		t.Errorf("a sink that gives a place keeps %d messages in Redis, and drops what the servers keep beyond", c.Broadcast.Keep)
	}
	c.Topics.Brokers, c.Broadcast.Address = []string{"a:1"}, "redis://b"
	c.Store.Cluster = cql.Address{Hosts: []string{"c"}, Keyspace: "chat", Replication: 1}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){func(c *Config) { c.Most = 0 }, func(c *Config) { c.Linger = 0 }} {
		wrong := c
		change(&wrong)
		if wrong.Validate() == nil {
			t.Errorf("%+v is valid", wrong)
		}
	}
}
