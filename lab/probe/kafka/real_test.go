package kafka

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/lab/driver/drivertest/probetest"
	"loadstone/lab/driver/process"
)

// compose has so many brokers. Their Java compiles quickly rather than well and
// collects garbage on one thread, which makes a start shorter; neither changes
// what they answer.
const compose = `
services:
  kafka:
    image: apache/kafka
    environment:
      KAFKA_HEAP_OPTS: -Xmx256m -Xms256m
      KAFKA_JVM_PERFORMANCE_OPTS: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS: 1
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/localhost/9092"], interval: 200ms, retries: 3000}
    deploy: {replicas: %d, resources: {limits: {memory: 640M}}}
`

func brokers(r *process.Running) []string {
	var all []string
	for _, in := range r.Instances() {
		all = append(all, net.JoinHostPort(in.Host, "9092"))
	}
	return all
}

func TestTheLagOfARealBroker(t *testing.T) {
	running := program.Up(t, fmt.Sprintf(compose, 1))
	at := brokers(running)
	produce(t, at, topic{"orders", 6, 1}, 10_000)
	consume(t, at, "orders", "kitchen", 5_000)
	r := open(t, at...)
	wantQueue(t, r, "orders/kitchen", state{5_000, 5_000})
	probetest.LogCost(t, running.Instances()[0].PID, func() { probetest.Read(t, r) })

	if err := running.Kill(t.Context(), "kafka-1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if got, err := r.Read(ctx); err == nil {
		t.Errorf("got %v of a broker that was killed, want an error", got)
	}
	t.Logf("a broker that is gone was noticed after %v", time.Since(began).Round(time.Millisecond))
}

func TestTheLagOfAClusterWithoutABroker(t *testing.T) {
	servertest.Large(t)
	running := program.Up(t, fmt.Sprintf(compose, 3))
	at := brokers(running)
	produce(t, at, topic{"orders", 6, 3}, 10_000)
	consume(t, at, "orders", "kitchen", 5_000)
	r := open(t, at...)
	wantQueue(t, r, "orders/kitchen", state{5_000, 5_000})
	if err := running.Kill(t.Context(), "kafka-2"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wantQueue(t, r, "orders/kitchen", state{5_000, 5_000})
	t.Logf("it was read again %v after a broker was killed", time.Since(began).Round(time.Second/10))
}
