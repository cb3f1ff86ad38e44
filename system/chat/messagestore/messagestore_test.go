package messagestore

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"loadstone/block/cql"
	"loadstone/block/servertest"
	"loadstone/system/chat"
)

// patiently does something, again for as long as the node does not answer in time: it has just started.
func patiently(t *testing.T, do func() error) {
	t.Helper()
	err := do()
	for deadline := time.Now().Add(5 * time.Minute); cql.KindOf(err) == cql.Unavailable && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		err = do()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newest(t *testing.T, s *Store, stream, before int64, most int) (found []chat.Raw) {
	t.Helper()
	patiently(t, func() (err error) {
		found, err = s.Newest(t.Context(), stream, time.UnixMilli(before), most)
		return err
	})
	return found
}

// One node for all: it takes a quarter of a minute to start.
func TestStore(t *testing.T) {
	t.Parallel()
	node := servertest.Cassandra(t, servertest.CassandraConfig{CommitLog: "commitlog_sync: batch", JMX: true, LazySchema: true})
	c := DefaultConfig()
	c.Cluster, c.Batch = cql.Address{Hosts: []string{node.Host}, Keyspace: "chat", Replication: 1}, 7
	var s *Store
	patiently(t, func() (err error) {
		s, err = Open(t.Context(), c)
		return err
	})
	t.Cleanup(s.Close)
	var all []chat.Raw
	for i := range 40 {
		all = append(all, chat.Raw{Stream: int64(1 + i%2), Message: chat.Message{
			At: 1_800_000_000_000 + int64(i/4), Sender: fmt.Sprint("guest-", i%3), Name: "민수", ID: fmt.Sprint("c-", i), Text: fmt.Sprint("안녕 👋 ", i), Mentions: []string{"u-1"},
		}})
	}
	all[39].Mentions = nil
	for range 2 { // what is stored again is there once
		patiently(t, func() error { return s.Store(t.Context(), all) })
	}
	seen := map[string]chat.Raw{}
	for stream := range int64(2) {
		found := newest(t, s, stream+1, 1_900_000_000_000, 100)
		if len(found) != 20 {
			t.Fatalf("stream %d has %d messages", stream+1, len(found))
		}
		for i, r := range found {
			if i > 0 && r.At > found[i-1].At {
				t.Errorf("message %d of stream %d is newer than the one before", i, stream+1)
			}
			seen[r.ID] = r
		}
	}
	for _, want := range all {
		if got := seen[want.ID]; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if before := newest(t, s, 1, 1_800_000_000_003, 4); len(before) != 4 || before[0].At != 1_800_000_000_002 {
		t.Errorf("got %+v", before)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Cluster = cql.Address{Hosts: []string{"a"}, Keyspace: "chat", Replication: 1}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"cluster": func(c *Config) { c.Cluster = cql.Address{} }, "batch": func(c *Config) { c.Batch = 0 }, "in flight": func(c *Config) { c.InFlight = 0 },
	} {
		wrong := c
		change(&wrong)
		if wrong.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, wrong)
		}
	}
}
