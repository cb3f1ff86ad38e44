package kafka

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"loadstone/block/queue"
	"loadstone/block/queue/queuetest"
)

// imitation is franz-go's, of a cluster.
func imitation(t *testing.T, brokers int) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// open opens a queue, which is closed at the end.
func open(t *testing.T, cfg Config) (*Client, error) {
	t.Helper()
	cfg.Retry = queuetest.FastRetry()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := Open(ctx, cfg)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// What stands for Kafka here is franz-go's imitation; the real one is used by the
// tests of the whole pattern.
func TestContract(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 1)
	queuetest.Run(t, func(t *testing.T, name string, s queuetest.Setting) queuetest.Queue {
		t.Helper()
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Name, cfg.Capacity, cfg.WhenFull = cluster.ListenAddrs(), name, s.Capacity, s.WhenFull
		cfg.Batch = 32
		c, err := open(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// While a broker holds an answer back, who publishes waits no longer than they said,
// and what nobody waits for any more stays bounded and is known once it is answered.
func TestPublishKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 1)
	cfg := DefaultConfig()
	cfg.Brokers, cfg.WhenFull = cluster.ListenAddrs(), queue.Wait // as what does not say for a moment is
	c, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	stalled, release := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(stalled)
		cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Publish(ctx, queue.Message{ID: "a", Key: "k", Body: []byte("1")}) }()
	select {
	case <-stalled: // from here on the client cannot call the record back
	case err := <-done:
		t.Fatalf("publish ended before the broker had the record: %v", err)
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, errUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("publish while the broker is silent: got %v, want %v and %v", err, errUnknown, context.Canceled)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("publish waits for the broker, and not for its own context")
	}
	if got := c.inner.BufferedProduceRecords(); got != 1 {
		t.Errorf("records under way: got %d, want the one that nobody waits for to count", got)
	}
}

// What is under way is bounded, though nobody waits for it any more.
func TestAbandonedRecordsAreBounded(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 1)
	cfg := DefaultConfig()
	cfg.Brokers = cluster.ListenAddrs()
	c, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	t.Cleanup(func() { close(release) })
	body := make([]byte, queue.MaxBody)
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 2 * maxBytes / queue.MaxBody {
		waiting.Go(func() {
			if err := c.put(ctx, cfg.Name, queue.Message{ID: strconv.Itoa(i), Key: "k", Body: body}, nil); err == nil {
				t.Error("put while the broker is silent: got nil, want an error")
			}
		})
	}
	<-arrived // what was sent cannot be taken back
	cancel()
	waiting.Wait() // who waits for room counts as well, until their time is over
	if got := c.inner.BufferedProduceBytes(); got == 0 || got > maxBytes {
		t.Errorf("bytes under way that nobody waits for: got %d, want some, and at most %d", got, int64(maxBytes))
	}
}

// describe tells a topic's replicas, and how many must have a record.
func describe(t *testing.T, c *Client, topic string) (replicas int, least string) {
	t.Helper()
	m, err := c.admin.Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	configs, err := c.admin.DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	_, err = configs.On(topic, func(r *kadm.ResourceConfig) error {
		for _, s := range r.Configs {
			if s.Key == minInSync {
				least = s.MaybeValue()
			}
		}
		return r.Err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m.Topics[topic].Partitions.NumReplicas(), least
}

// A topic has as many replicas as there are brokers for, up to three, of which two
// must have a record; or as many as are asked for.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		brokers  int
		asked    int16
		replicas int
		least    string
	}{
		{1, ByBrokers, 1, "1"}, {2, ByBrokers, 2, "1"}, {3, ByBrokers, 3, "2"}, {4, ByBrokers, 3, "2"}, {3, 1, 1, "1"}, {4, 4, 4, "2"},
	} {
		cluster := imitation(t, c.brokers)
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Replicas, cfg.WhenFull = cluster.ListenAddrs()[:1], c.asked, queue.Wait
		client, err := open(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{cfg.Name, client.dead()} {
			if replicas, least := describe(t, client, topic); replicas != c.replicas || least != c.least {
				t.Errorf("%s, asked for %d of %d brokers: got %d replicas and at least %s in sync, want %d and %s",
					topic, c.asked, c.brokers, replicas, least, c.replicas, c.least)
			}
		}
		if err := client.Publish(t.Context(), queue.Message{ID: "a"}); err != nil {
			t.Errorf("publish: %v", err)
		}
	}
}

// A topic that keeps less than was asked for is refused at once; one that was stated
// to do is not.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 3)
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Name, cfg.Replicas = cluster.ListenAddrs(), "one", 1
	first, err := open(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, cfg); err != nil {
		t.Errorf("one replica, as stated: got %v, want nil", err)
	}
	cfg.Replicas = ByBrokers
	if _, err := open(t, cfg); !errors.Is(err, ErrReplicas) || !strings.Contains(err.Error(), "replicas=1") {
		t.Errorf("one replica of three: got %v, want %v and what to state", err, ErrReplicas)
	}
	weak := "1"
	if _, err := first.admin.CreateTopics(t.Context(), 1, 3, map[string]*string{minInSync: &weak}, "weak"); err != nil {
		t.Fatal(err)
	}
	cfg.Name = "weak"
	if _, err := open(t, cfg); !errors.Is(err, ErrReplicas) || !strings.Contains(err.Error(), minInSync) {
		t.Errorf("three replicas of which one is enough: got %v, want %v and %s", err, ErrReplicas, minInSync)
	}
}

// A topic that somebody else has just made, and of which a broker has not heard yet, is there at the next look.
func TestABrokerHearsOfATopicLater(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 3)
	topics := Topics{Names: []string{"said"}, Partitions: 1, Replicas: ByBrokers, Brokers: cluster.ListenAddrs()}
	makes := func() {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(topics.Brokers...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := topics.Make(ctx, kadm.NewClient(client)); err != nil {
			t.Fatal(err)
		}
	}
	makes()
	var looks atomic.Int64
	cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		looks.Add(1)
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		asked, ok := r.(*kmsg.MetadataRequest)
		if !ok || len(asked.Topics) == 0 {
			return nil, nil, false // who asks for the brokers
		}
		answer := kmsg.NewPtrMetadataResponse()
		answer.Version = asked.Version
		for _, one := range asked.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = one.Topic, kerr.UnknownTopicOrPartition.Code
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true // once
	})
	makes()
	if n := looks.Load(); n < 2 || n > 5 { // two, unless a request takes seconds
		t.Errorf("it looked %d times: who was told that there is no topic yet asks again at the next look", n)
	}
}

// Of several brokers that are named, those that are away count.
func TestReplicasOfBrokersThatAreAway(t *testing.T) {
	t.Parallel()
	cluster := imitation(t, 1)
	cfg := DefaultConfig()
	cfg.Brokers = append(cluster.ListenAddrs(), "127.0.0.1:1", "127.0.0.1:2")
	cfg.Retry = queuetest.FastRetry()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if c, err := Open(ctx, cfg); err == nil {
		_ = c.Close()
		t.Error("one broker of three that are named: got a queue with a replica on it, want to wait for the others")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err == nil {
		t.Error("an empty configuration: got nil, want an error")
	}
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Replicas = []string{"127.0.0.1:9092"}, MaxReplicas+1
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "10 replicas") {
		t.Errorf("ten replicas: got %v, want an error that says so", err)
	}
}
