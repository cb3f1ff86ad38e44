package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"loadstone/block/pause"
)

const (
	// ByBrokers is the number of replicas that goes with the number of brokers.
	ByBrokers int16 = 0
	// MaxReplicas bounds a number that is stated: more would only make writing slow.
	MaxReplicas = 9

	// usualReplicas survive the loss of one broker with a second one to spare.
	usualReplicas = 3
	minInSync     = "min.insync.replicas"
)

// ErrReplicas is wrapped by Open's error if a topic is there that keeps less than it
// should.
var ErrReplicas = errors.New("too few replicas")

// inSync is how many replicas must have a record before it is accepted. Of three one
// may be away; of two none could, so there the broker that is left goes on alone.
func inSync(replicas int16) int {
	if replicas >= usualReplicas {
		return 2
	}
	return 1
}

func (c *Client) dead() string { return c.cfg.Name + "-dead" }

// create makes the topics and waits until they can be used. It learns the lag.
func (c *Client) create(ctx context.Context) error {
	t := Topics{Names: []string{c.cfg.Name, c.dead()}, Partitions: c.cfg.Partitions, Replicas: c.cfg.Replicas, Brokers: c.cfg.Brokers}
	for {
		err := t.Make(ctx, c.admin)
		if err != nil {
			return fmt.Errorf("use the queue %s: %w", c.cfg.Name, err)
		}
		if err = c.learn(ctx); err == nil {
			return nil
		}
		if !pause.For(ctx, openPause) {
			return fmt.Errorf("use the queue %s: %w", c.cfg.Name, errors.Join(ctx.Err(), err))
		}
	}
}

// Topics are topics that are to be there.
type Topics struct {
	Names      []string
	Partitions int32    // of those that are made
	Replicas   int16    // see Config
	Brokers    []string // that were named
}

// Make makes the topics that are not there, and waits for a broker until ctx ends. One that keeps less
// than it should is an error that wraps ErrReplicas.
func (t Topics) Make(ctx context.Context, admin *kadm.Client) error {
	for {
		err := t.make(ctx, admin)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrReplicas) {
			return fmt.Errorf("use the topics %s at %v: %w", strings.Join(t.Names, ", "), t.Brokers, err)
		}
		if !pause.For(ctx, openPause) {
			return fmt.Errorf("make the topics %s at %v: %w", strings.Join(t.Names, ", "), t.Brokers, errors.Join(ctx.Err(), err))
		}
	}
}

func (t Topics) make(ctx context.Context, admin *kadm.Client) error {
	// A broker that has just started may take seconds to make its first topic.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	replicas, err := t.replicas(ctx, admin)
	if err != nil {
		return err
	}
	var configs map[string]*string
	if least := strconv.Itoa(inSync(replicas)); replicas >= usualReplicas {
		configs = map[string]*string{minInSync: &least} // otherwise the cluster's own, which may ask for more
	}
	made, err := admin.CreateTopics(ctx, t.Partitions, replicas, configs, t.Names...)
	if err != nil {
		return err
	}
	for _, topic := range made.Sorted() {
		switch {
		case errors.Is(topic.Err, kerr.TopicAlreadyExists):
			err = check(ctx, admin, topic.Topic, replicas)
		case topic.Err != nil:
			err = fmt.Errorf("make the topic %s with %d replicas: %w", topic.Topic, replicas, topic.Err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replicas is how many a topic should have. Of several brokers that are named one may
// be away just now: they count.
func (t Topics) replicas(ctx context.Context, admin *kadm.Client) (int16, error) {
	if t.Replicas != ByBrokers {
		return t.Replicas, nil
	}
	m, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for the brokers: %w", err)
	}
	return int16(min(usualReplicas, max(len(m.Brokers), len(t.Brokers)))), nil
}

// check refuses a topic, made by whomever, that keeps a record on fewer replicas than
// it should, or acknowledges it before enough have it.
func check(ctx context.Context, admin *kadm.Client, topic string, want int16) error {
	if want == 1 {
		return nil // every topic has one
	}
	// A broker hears of a topic later than the one that made it, and the client would keep its answer for five seconds. What
	// is asked with the rights to it always goes to a broker.
	m, err := admin.Metadata(kadm.WithAuthorizedOps(ctx), topic)
	if err == nil {
		err = m.Topics[topic].Err
	}
	if err != nil {
		return fmt.Errorf("ask for the replicas of the topic %s: %w", topic, err)
	}
	for _, p := range m.Topics[topic].Partitions.Sorted() {
		if len(p.Replicas) < int(want) {
			return fmt.Errorf("the topic %s has %w: %d where %d are wanted; give it more with Kafka's tools, or state that %d will do: replicas=%d",
				topic, ErrReplicas, len(p.Replicas), want, len(p.Replicas), len(p.Replicas))
		}
	}
	return checkInSync(ctx, admin, topic, inSync(want))
}

func checkInSync(ctx context.Context, admin *kadm.Client, topic string, want int) error {
	if want == 1 {
		return nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return fmt.Errorf("ask for the configuration of the topic %s: %w", topic, err)
	}
	_, err = configs.On(topic, func(r *kadm.ResourceConfig) error {
		if r.Err != nil {
			return fmt.Errorf("ask for the configuration of the topic %s: %w", topic, r.Err)
		}
		for _, setting := range r.Configs {
			if n, err := strconv.Atoi(setting.MaybeValue()); setting.Key == minInSync && (err != nil || n < want) {
				return fmt.Errorf("the topic %s accepts with %w in sync: its %s is %q; set it to %d with Kafka's tools",
					topic, ErrReplicas, minInSync, setting.MaybeValue(), want)
			}
		}
		return nil
	})
	return err
}
