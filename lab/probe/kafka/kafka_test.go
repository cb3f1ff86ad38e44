package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"loadstone/lab/driver/drivertest/probetest"
	"loadstone/lab/series"
	"loadstone/lab/topology"
)

func client(t *testing.T, brokers []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// topic is one to be made.
type topic struct {
	name       string
	partitions int
	replicas   int16
}

// produce makes a topic and puts records of one byte into all of its partitions.
func produce(t *testing.T, brokers []string, to topic, n int) {
	t.Helper()
	c := client(t, brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(to.name))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(c).CreateTopic(ctx, int32(to.partitions), to.replicas, nil, to.name); err != nil {
		t.Fatal(err)
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: []byte{1}, Partition: int32(i % to.partitions)}
	}
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume takes n records as a member of a group, commits those and leaves.
func consume(t *testing.T, brokers []string, topic, group string, n int) {
	t.Helper()
	c := client(t, brokers, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for left := n; left > 0; {
		fetches := c.PollRecords(ctx, left)
		if err := fetches.Err(); err != nil {
			t.Fatalf("with %d of %d records left: %v", left, n, err)
		}
		records := fetches.Records()
		if err := c.CommitRecords(ctx, records...); err != nil {
			t.Fatal(err)
		}
		left -= len(records)
	}
	c.Close()
}

// state is how a queue stands.
type state struct{ depth, done float64 }

// wantQueue reads until it works, and once more, so that what waits is overdue, and
// wants one resource, whose selectors find its figures among the values that it
// returns. A reading may lack them, as of a partition whose leader was killed: then it
// reads on.
func wantQueue(t *testing.T, r *Reader, name string, want state) map[string]float64 {
	t.Helper()
	probetest.Read(t, r)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		values := probetest.Read(t, r)
		resources, late := r.Resources(), time.Now().After(deadline)
		i := slices.IndexFunc(resources, func(r topology.Resource) bool { return r.Name == name })
		if i < 0 && !late {
			continue
		}
		if i < 0 || resources[i].Kind != topology.Queue || resources[i].Consumer != "" {
			t.Fatalf("got %+v, want the queue %s of nobody", resources, name)
		}
		depth, depthTold := told(t, values, resources[i].Depth)
		done, doneTold := told(t, values, resources[i].Done)
		if !late && (!depthTold || !doneTold) {
			continue
		}
		if got := (state{depth, done}); got != want || !depthTold || !doneTold {
			t.Errorf("%s: got %+v, told %v and %v, want %+v", name, got, depthTold, doneTold, want)
		}
		return values
	}
}

// told is the sum of the series that a selector finds.
func told(t *testing.T, values map[string]float64, selector string) (sum float64, ok bool) {
	t.Helper()
	s, err := series.ParseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return series.Total(values, s.Matches)
}

func fake(t *testing.T, brokers int) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, brokers ...string) *Reader {
	t.Helper()
	return openNow(t, func() []string { return brokers })
}

func openNow(t *testing.T, brokers func() []string) *Reader {
	t.Helper()
	r, err := Open(brokers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestAGroupsLagIsAQueue(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int{1, 3} {
		t.Run(strconv.Itoa(brokers), func(t *testing.T) {
			t.Parallel()
			at := fake(t, brokers).ListenAddrs()
			produce(t, at, topic{"orders", 6, 1}, 10_000)
			produce(t, at, topic{"bills", 1, 1}, 40)
			consume(t, at, "orders", "kitchen", 5_000)
			consume(t, at, "orders", `to "go", fast`, 1)
			consume(t, at, "bills", "kitchen", 40)
			r := open(t, at...)
			wantQueue(t, r, "orders/kitchen", state{5_000, 5_000})
			wantQueue(t, r, `orders/to "go", fast`, state{9_999, 1})
			got := wantQueue(t, r, "bills/kitchen", state{0, 40})
			if end := got[`kafka_topic_end{topic="orders"}`]; end != 10_000 {
				t.Errorf("got %v records in orders, want 10,000", end)
			}
		})
	}
}

// A consumer that commits batches has a lag of what came last. That is no queue.
func TestWhatJustCameIsNotOverdue(t *testing.T) {
	t.Parallel()
	at := fake(t, 1).ListenAddrs()
	produce(t, at, topic{"orders", 2, 1}, 10)
	consume(t, at, "orders", "kitchen", 10)
	r := open(t, at...)
	wantQueue(t, r, "orders/kitchen", state{0, 10})
	c := client(t, at, kgo.DefaultProduceTopic("orders"))
	if err := c.ProduceSync(t.Context(), &kgo.Record{Value: []byte{1}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 1} {
		got := probetest.Read(t, r)
		if lag, overdue := got[`kafka_group_lag{group="kitchen",topic="orders"}`], got[`kafka_group_overdue{group="kitchen",topic="orders"}`]; lag != 1 || overdue != want {
			t.Errorf("reading %d: got a lag of %v and %v overdue, want 1 and %v", i+1, lag, overdue, want)
		}
	}
}

// Who only commits, as Flink, has given the partitions to itself. Who was seen as a member has not, also when it is gone.
func TestWhoHasGivenPartitionsToItself(t *testing.T) {
	t.Parallel()
	at := fake(t, 1).ListenAddrs()
	produce(t, at, topic{"orders", 2, 1}, 10)
	admin := kadm.NewClient(client(t, at))
	var done kadm.Offsets
	done.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 3, LeaderEpoch: -1})
	for _, group := range []string{"analysis", "kitchen"} {
		if _, err := admin.CommitOffsets(t.Context(), group, done); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, at...)
	probetest.Read(t, r)
	member := client(t, at, kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("kitchen"), kgo.DisableAutoCommit())
	if fetched := member.PollRecords(t.Context(), 1); fetched.Err() != nil {
		t.Fatal(fetched.Err())
	}
	probetest.Read(t, r)
	member.Close()
	probetest.Read(t, r)
	if !r.SelfAssigned("orders/analysis") || r.SelfAssigned("orders/kitchen") || r.SelfAssigned("nothing/nobody") {
		t.Errorf("got %v, %v and %v", r.SelfAssigned("orders/analysis"), r.SelfAssigned("orders/kitchen"), r.SelfAssigned("nothing/nobody"))
	}
}

// A consumer that commits now and then has no queue while it keeps up, and has one when it falls behind or stands still.
func TestWhatIsOverdueIsSeenAtCommits(t *testing.T) {
	t.Parallel()
	const readings, comes = 60, 100
	for name, k := range map[string]struct {
		every, does, until int // readings between commits; records that it does in one; when it stands still
		least, most        func(i int) int64
	}{
		"each reading":      {1, comes, readings, func(int) int64 { return 0 }, func(int) int64 { return 0 }},
		"each fifth":        {5, comes, readings, func(int) int64 { return 0 }, func(int) int64 { return 0 }},
		"it falls behind":   {5, comes / 2, readings, func(i int) int64 { return int64(comes/2*i - 12*comes) }, func(i int) int64 { return int64(comes / 2 * i) }},
		"it stands still":   {5, comes, 30, func(i int) int64 { return int64(max(0, (i-45)*comes)) }, func(i int) int64 { return int64(max(0, (i-25)*comes)) }},
		"which is seen now": {1, comes, 30, func(i int) int64 { return int64(max(0, (i-32)*comes)) }, func(i int) int64 { return int64(max(0, (i-29)*comes)) }},
	} {
		p, done, before, committed := &progress{}, 0, 0, 0
		for i := range readings {
			end := i * comes
			if i < k.until {
				if i%k.every == 0 {
					committed = done // a checkpoint takes until the next reading
				}
				done = min(end, done+k.does)
			}
			got := p.read(int64(committed), int64(end), int64(before))
			if i > 3*k.every && (got < k.least(i) || got > k.most(i)) {
				t.Errorf("%s, reading %d: %d are overdue, want %d to %d: %+v", name, i, got, k.least(i), k.most(i), *p)
			}
			before = end
		}
	}
}

func TestWhatIsNotKnownIsAGap(t *testing.T) {
	t.Parallel()
	cluster := fake(t, 1)
	at := cluster.ListenAddrs()
	r := open(t, at...)
	if got, err := r.Read(t.Context()); err == nil || len(r.Resources()) > 0 {
		t.Errorf("got %v of a cluster without groups, want an error", got)
	}
	produce(t, at, topic{"orders", 6, 1}, 60)
	produce(t, at, topic{"bills", 1, 1}, 40)
	consume(t, at, "orders", "kitchen", 30)
	consume(t, at, "bills", "office", 30)
	wantQueue(t, r, "orders/kitchen", state{30, 30})

	// One partition of one topic does not tell its end.
	cluster.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return withholding(request), nil, true
	})
	got := probetest.Read(t, r)
	if len(got) != 4 || got[`kafka_group_lag{group="office",topic="bills"}`] != 10 {
		t.Errorf("got %v, want what is known of bills and nothing of orders", slices.Sorted(maps.Keys(got)))
	}

	cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := r.Read(ctx); err == nil {
		t.Errorf("got %v of a broker that is gone, want an error", got)
	}
}

// A broker that comes back elsewhere is asked there, and what was found before stays found.
func TestABrokerIsAskedWhereItIs(t *testing.T) {
	t.Parallel()
	first, second := fake(t, 1), fake(t, 1)
	at := first.ListenAddrs()
	r := openNow(t, func() []string { return at })
	produce(t, at, topic{"orders", 2, 1}, 10)
	consume(t, at, "orders", "kitchen", 4)
	wantQueue(t, r, "orders/kitchen", state{6, 4})
	first.Close()
	at = nil // it is being started
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := r.Read(ctx); err == nil {
		t.Errorf("got %v of a broker that is gone, want an error", got)
	}
	at = second.ListenAddrs()
	produce(t, at, topic{"orders", 2, 1}, 20)
	consume(t, at, "orders", "kitchen", 12)
	for range 2*mostBetween + 2 { // until nobody takes the group to be about to commit
		probetest.Read(t, r)
	}
	wantQueue(t, r, "orders/kitchen", state{8, 12})
}

// withholding answers as if each partition but the second of orders had 0 to 40.
func withholding(request kmsg.Request) kmsg.Response {
	asked := request.(*kmsg.ListOffsetsRequest)
	out := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, topic := range asked.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			if p.Timestamp == -1 {
				rp.Offset = 40
			}
			if topic.Topic == "orders" && p.Partition == 1 {
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		out.Topics = append(out.Topics, rt)
	}
	return out
}

func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t, "127.0.0.1:1")
	for i := range 2 * mostQueues {
		if got, want := r.admit(queue{fmt.Sprint(i), "t"}), i < mostQueues; got != want {
			t.Fatalf("queue %d: got %v, want %v", i, got, want)
		}
	}
	if !r.admit(queue{"0", "t"}) || len(r.Resources()) != mostQueues {
		t.Errorf("got %d queues, want %d that keep their places", len(r.Resources()), mostQueues)
	}
}
