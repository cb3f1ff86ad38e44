package event

import (
	"strings"
	"testing"

	"loadstone/block/queue/kafka"
)

// What a target states reaches the queue, and what it does not state is left alone.
func TestTargetOptions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Target{
		"nats://a:1":                         {Capacity: defaultCapacity, Replicas: kafka.ByBrokers},
		"nats://a:1?capacity=50000":          {Capacity: 50_000, SetCapacity: true, Replicas: kafka.ByBrokers},
		"kafka://a:1,b:2?replicas=2":         {Capacity: defaultCapacity, Replicas: 2},
		"kafka://a:1?capacity=7&replicas=03": {Capacity: 7, SetCapacity: true, Replicas: 3},
	} {
		got, err := ParseTarget(text)
		if err != nil || got.Capacity != want.Capacity || got.SetCapacity != want.SetCapacity || got.Replicas != want.Replicas {
			t.Errorf("%q: got %+v and %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"nats://a:1?replicas=2":   "only Kafka has replicas",
		"kafka://a:1?replicas=0":  "replicas=0 is no option",
		"kafka://a:1?replicas=10": "replicas=10 is no option",
		"http://a:1?replicas=1":   "a call has no options",
	} {
		if _, err := ParseTarget(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
