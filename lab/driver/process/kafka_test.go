package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/block/servertest"
	"loadstone/lab/topology"
)

// portCheck is a health check that works in the image as well.
const portCheck = `{test: [CMD, bash, -c, "exec 3<>/dev/tcp/localhost/%d"], interval: 1s, retries: 900}`

// broker is a client of a Kafka cluster.
type broker struct {
	*kgo.Client

	t *testing.T
}

func kafkaClient(t *testing.T, instances []topology.Instance, options ...kgo.Opt) *broker {
	t.Helper()
	var seeds []string
	for _, in := range instances {
		seeds = append(seeds, net.JoinHostPort(in.Host, "9092"))
	}
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &broker{Client: client, t: t}
}

// soon bounds one operation.
func (b *broker) soon() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *broker) create(partitions int32, replicas int16) {
	b.t.Helper()
	if _, err := kadm.NewClient(b.Client).CreateTopic(b.soon(), partitions, replicas, nil, "orders"); err != nil {
		b.t.Fatal(err)
	}
}

// produce writes the numbers from first to last-1, acknowledged by all replicas.
func (b *broker) produce(first, last int) {
	b.t.Helper()
	var records []*kgo.Record
	for i := first; i < last; i++ {
		records = append(records, &kgo.Record{Topic: "orders", Value: []byte(strconv.Itoa(i))})
	}
	if err := b.ProduceSync(b.soon(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// wantStored reads until the numbers from 0 to last-1 have come, each once.
func wantStored(t *testing.T, instances []topology.Instance, last int) {
	t.Helper()
	b := kafkaClient(t, instances, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []int
	for len(got) < last {
		fetches := b.PollFetches(b.soon())
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), last, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				t.Error(err)
			}
			got = append(got, n)
		})
	}
	slices.Sort(got)
	for i, n := range got {
		if n != i {
			t.Fatalf("record %d is %d", i, n)
		}
	}
}

func TestKafkaIsAsItsImage(t *testing.T) {
	installed(t, "apache/kafka")
	c := config(t, fmt.Sprintf(`
services:
  kafka:
    image: apache/kafka:3.9.1
    environment:
      CLUSTER_ID: 4L6g3nShT-eMCtK--X86sw
      KAFKA_NODE_ID: 7
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://localhost:29092
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 7@kafka:9093
      KAFKA_LOG_DIRS: /var/lib/kafka/data
      KAFKA_NUM_PARTITIONS: 3
      KAFKA_HEAP_OPTS: -Xmx192m -Xms192m
      KAFKA_BROKER_SESSION_TIMEOUT_MS: 2000 # how long a killed one's return is refused
      KAFKA_BROKER_HEARTBEAT_INTERVAL_MS: 500
    volumes: [data:/var/lib/kafka/data]
    healthcheck: %s
    stop_grace_period: 5m
    deploy: {resources: {limits: {memory: 640M}}}
volumes: {data: {}}
`, fmt.Sprintf(portCheck, 9092)))
	began := time.Now()
	r := up(t, c)
	t.Logf("it was ready after %v", time.Since(began).Round(time.Second/10))
	if w := strings.Join(r.Warnings(), "|"); !strings.Contains(w, "the image is apache/kafka:3.9.1, but the installed version, ") {
		t.Errorf("got warnings %q", w)
	}
	client := kafkaClient(t, r.Instances())
	admin, ctx := kadm.NewClient(client.Client), client.soon()
	var meta kadm.Metadata
	eventually(t, "the broker is known", func() bool { // it listens before that
		var err error
		meta, err = admin.BrokerMetadata(ctx)
		return err == nil && len(meta.Brokers) == 1
	})
	if meta.Cluster != "4L6g3nShT-eMCtK--X86sw" || meta.Brokers[0].NodeID != 7 || meta.Brokers[0].Host != r.Instances()[0].Host {
		t.Errorf("got %+v", meta)
	}
	client.create(-1, -1)
	ctx = client.soon()
	eventually(t, "there are the 3 partitions that the broker is set to", func() bool {
		topics, err := admin.ListTopics(ctx, "orders")
		return err == nil && len(topics["orders"].Partitions) == 3
	})
	client.produce(0, 500)
	logMemory(t, r)
	if err := r.Kill(t.Context(), "kafka-1"); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if _, err := r.Start(t.Context(), "kafka-1"); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed, it was ready again after %v", time.Since(began).Round(time.Second/10))
	wantStored(t, r.Instances(), 500)
	client.produce(500, 600)
	client.Close()
	began = time.Now()
	down(t, r)
	t.Logf("it was stopped after %v", time.Since(began).Round(time.Second/10))

	r = up(t, c)
	wantStored(t, r.Instances(), 600)
	down(t, r)
	log, err := os.ReadFile(filepath.Join(c.LogDir, "kafka-1.log"))
	if err != nil || strings.Contains(string(log), "Formatting ") || !strings.Contains(string(log), "shut down completed") {
		t.Errorf("its data was formatted again, or it was not stopped as its image is: %v\n%s", err, log)
	}
	wantNoDirs(t, os.Getpid())
}

func TestThreeBrokersAreACluster(t *testing.T) {
	installed(t, "apache/kafka")
	servertest.Large(t)
	c := config(t, fmt.Sprintf(`
services:
  kafka:
    image: apache/kafka
    environment:
      KAFKA_LOG_DIRS: /var/lib/kafka/data
      KAFKA_MIN_INSYNC_REPLICAS: 2
      KAFKA_HEAP_OPTS: -Xmx256m -Xms256m
    volumes: [data:/var/lib/kafka/data]
    healthcheck: %s
    deploy: {replicas: 3, resources: {limits: {memory: 768M}}}
volumes: {data: {}}
`, fmt.Sprintf(portCheck, 9092)))
	began := time.Now()
	r := up(t, c)
	t.Logf("three brokers were ready after %v", time.Since(began).Round(time.Second/10))
	client := kafkaClient(t, r.Instances())
	client.create(6, 3)
	client.produce(0, 300)
	if err := r.Kill(t.Context(), "kafka-2"); err != nil {
		t.Fatal(err)
	}
	client.produce(300, 600)
	began = time.Now()
	if _, err := r.Start(t.Context(), "kafka-2"); err != nil {
		t.Fatal(err)
	}
	ctx := client.soon()
	eventually(t, "all replicas are in sync again", func() bool {
		topics, err := kadm.NewClient(client.Client).ListTopics(ctx, "orders")
		if err != nil {
			return false
		}
		for _, p := range topics["orders"].Partitions {
			if len(p.ISR) != 3 {
				return false
			}
		}
		return true
	})
	t.Logf("all replicas were in sync %v after its start", time.Since(began).Round(time.Second/10))
	wantStored(t, r.Instances(), 600)
	for i := range 3 {
		if _, err := os.Stat(filepath.Join(c.VolumeDir, "data", fmt.Sprintf("node-%d", i+1), "meta.properties")); errors.Is(err, os.ErrNotExist) {
			t.Errorf("broker %d has no directory of its own in the volume: %v", i+1, err)
		}
	}
	logMemory(t, r)
}

// logMemory logs how much memory each instance holds.
func logMemory(t *testing.T, r *Running) {
	t.Helper()
	for _, in := range r.Instances() {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(in.PID), "status"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		rss, _, _ := strings.Cut(rest, "\n")
		t.Logf("%s holds %s", in.Name, strings.TrimSpace(rss))
	}
}
