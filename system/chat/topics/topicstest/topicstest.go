// Package topicstest writes records that no server writes, and reads topics, in tests.
package topicstest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const long = time.Minute // more than anything takes that does not hang

// Write writes a record to a topic.
func Write(tb testing.TB, broker, topic string, value []byte) {
	tb.Helper()
	client := open(tb, kgo.SeedBrokers(broker))
	defer client.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), long)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
		tb.Fatal(err)
	}
}

// Record is one that was read.
type Record struct {
	Value   []byte
	Headers map[string]string
}

// Read reads the first so many records of a topic.
func Read(tb testing.TB, broker, topic string, count int) (all []Record) {
	tb.Helper()
	client := open(tb, kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), long)
	defer cancel()
	for len(all) < count {
		fetched := client.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Fatalf("%s has %d records, want %d", topic, len(all), count)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, h := range r.Headers {
				headers[h.Key] = string(h.Value)
			}
			all = append(all, Record{r.Value, headers})
		})
	}
	return all
}

func open(tb testing.TB, options ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(options...)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}
