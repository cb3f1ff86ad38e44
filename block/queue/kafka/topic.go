package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	for {
		err := c.createBoth(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrReplicas) {
			return fmt.Errorf("use the queue %s at %v: %w", c.cfg.Name, c.cfg.Brokers, err)
		}
		if !pause.For(ctx, openPause) {
			return fmt.Errorf("make the queue %s at %v: %w", c.cfg.Name, c.cfg.Brokers, errors.Join(ctx.Err(), err))
		}
	}
}

func (c *Client) createBoth(ctx context.Context) error {
	// A broker that has just started may take seconds to make its first topic.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	replicas, err := c.replicas(ctx)
	if err != nil {
		return err
	}
	var configs map[string]*string
	if least := strconv.Itoa(inSync(replicas)); replicas >= usualReplicas {
		configs = map[string]*string{minInSync: &least} // otherwise the cluster's own, which may ask for more
	}
	made, err := c.admin.CreateTopics(ctx, c.cfg.Partitions, replicas, configs, c.cfg.Name, c.dead())
	if err != nil {
		return err
	}
	for _, topic := range made.Sorted() {
		switch {
		case errors.Is(topic.Err, kerr.TopicAlreadyExists):
			err = c.check(ctx, topic.Topic, replicas)
		case topic.Err != nil:
			err = fmt.Errorf("make the topic %s with %d replicas: %w", topic.Topic, replicas, topic.Err)
		}
		if err != nil {
			return err
		}
	}
	return c.learn(ctx)
}

// replicas is how many a topic should have. Of several brokers that are named one may
// be away just now: they count.
func (c *Client) replicas(ctx context.Context) (int16, error) {
	if c.cfg.Replicas != ByBrokers {
		return c.cfg.Replicas, nil
	}
	m, err := c.admin.BrokerMetadata(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for the brokers: %w", err)
	}
	return int16(min(usualReplicas, max(len(m.Brokers), len(c.cfg.Brokers)))), nil
}

// check refuses a topic, made by whomever, that keeps a record on fewer replicas than
// it should, or acknowledges it before enough have it.
func (c *Client) check(ctx context.Context, topic string, want int16) error {
	if want == 1 {
		return nil // every topic has one
	}
	m, err := c.admin.Metadata(ctx, topic)
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
	return c.checkInSync(ctx, topic, inSync(want))
}

func (c *Client) checkInSync(ctx context.Context, topic string, want int) error {
	if want == 1 {
		return nil
	}
	configs, err := c.admin.DescribeTopicConfigs(ctx, topic)
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
