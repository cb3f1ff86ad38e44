// Package kafka asks a Kafka cluster how far its consumers are behind: the lag of
// each consumer group in each topic, which is the queue between those who
// produce and those who consume.
//
// It only reads, joins no group and commits nothing. What it tells are figures of
// the cluster, so one Reader is enough for all of its brokers. A partition of
// which anything is unknown makes its whole group and topic unknown, because a
// sum without it would look like work that was done.
//
// Lag counts what is not committed. A consumer that commits batches always has
// some, even if it keeps up, so what counts as waiting in the queue is what was
// there at the reading before already, about a second ago, and is still not
// committed: the overdue records. Of one that commits less often, as Flink at its
// checkpoints, it is what was there at the commit before already, see progress.
// Records of a transaction count as soon as they are in the log.
//
// A question costs 1.3 ms of CPU here and 6.2 ms in a broker whose Java compiles
// quickly rather than well, so a second of watching takes under 1 % of a core:
//
//	go test -v -run TestTheLagOfARealBroker ./lab/probe/kafka
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/lab/topology"
)

// DefaultPort is where brokers listen unless they are told otherwise.
const DefaultPort = 9092

// The series that Read tells, in records; all but the last have the labels group
// and topic, which has topic.
const (
	lagSeries       = "kafka_group_lag"       // gauge: in the log and not committed
	overdueSeries   = "kafka_group_overdue"   // gauge: the part of it that is older than a reading, or than a commit
	committedSeries = "kafka_group_committed" // counter: done
	endSeries       = "kafka_topic_end"       // counter: what came in
)

// mostQueues bounds how many pairs of a group and a topic are told of. Those that
// are found first keep their places; more than these are in no experiment that
// anybody reads.
const mostQueues = 64

// dialTimeout bounds a connection. Loopback answers in microseconds; a broker
// that is being started refuses, and one that stands still is asked again later.
const dialTimeout = 500 * time.Millisecond

// Reader reads one cluster's lags. It is for one goroutine at a time, but for
// Resources.
type Reader struct {
	brokers func() []string
	at      []string // the brokers that the client knows of
	client  *kgo.Client
	admin   *kadm.Client

	ends map[partition]int64 // at the reading before
	all  map[part]*progress

	mu     sync.Mutex // protects what follows
	queues map[queue]bool
	joined map[string]bool // groups that had members
}

type partition struct {
	topic  string
	number int32
}

type queue struct{ group, topic string }

// part is what a group has of a partition.
type part struct {
	group string
	partition
}

// progress is how a group goes on in a partition. What it has done between two commits is not known, so that what is
// overdue is seen at commits: what was in the log at the one before. It is taken to be the same until the next one is due,
// and for as long again.
type progress struct {
	committed, end  int64 // at the last commit that was seen
	overdue         int64
	waited, between int // readings with something to do: since that commit, and before it
}

// read is how many records are overdue, as a partition is now. before is its end at the reading before.
func (p *progress) read(committed, end, before int64) int64 {
	switch {
	case committed != p.committed:
		p.overdue = max(0, p.end-committed)
		p.between, p.waited = p.waited, 0
		p.committed, p.end = committed, end
	case committed == end:
		p.overdue, p.waited, p.end = 0, 0, end
	default:
		if p.waited++; p.waited > 2*min(p.between, mostBetween) {
			p.overdue = max(0, before-committed)
		}
	}
	return p.overdue
}

// mostBetween bounds the readings, a second each, for which a group may be taken to be about to commit.
const mostBetween = 30

// Open makes a reader of the cluster that the brokers, HOST:PORT, belong to. They are asked for
// each time, because those that are started again may have other addresses. It connects when it
// is first asked, so that brokers may start later.
func Open(brokers func() []string) (*Reader, error) {
	at := brokers()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(at...),
		kgo.ClientID("loadstone-probe"),
		kgo.DialTimeout(dialTimeout),
		// Read is given a second in all: what fails is asked again a second later,
		// and by then it is a newer figure.
		kgo.RequestRetries(1),
		// A broker that was started again, or a topic that is new, is seen after this.
		kgo.MetadataMinAge(time.Second), kgo.MetadataMaxAge(10*time.Second),
	)
	if err != nil {
		return nil, fmt.Errorf("read the lag of Kafka at %v: %w", at, err)
	}
	return &Reader{brokers: brokers, at: at, client: client, admin: kadm.NewClient(client), ends: make(map[partition]int64), all: make(map[part]*progress), queues: make(map[queue]bool), joined: make(map[string]bool)}, nil
}

// Close ends its connections. No Read may be under way.
func (r *Reader) Close() { r.client.Close() }

// Read tells of each group and topic that could be read, until ctx ends. A
// cluster without groups is an error, too: there is nothing to tell.
func (r *Reader) Read(ctx context.Context) (map[string]float64, error) {
	if at := r.brokers(); !slices.Equal(at, r.at) {
		if err := r.client.UpdateSeedBrokers(at...); err != nil {
			return nil, fmt.Errorf("ask the brokers at %v: %w", at, err)
		}
		r.at = at
	}
	groups, err := r.admin.Lag(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the lag of its groups: %w", err)
	}
	out := make(map[string]float64)
	ends := make(map[partition]int64)
	var failed []error
	for _, g := range groups.Sorted() {
		if err := g.Error(); err != nil {
			failed = append(failed, fmt.Errorf("group %s: %w", g.Group, err))
			continue
		}
		if len(g.Members) > 0 {
			r.join(g.Group)
		}
		for _, topic := range g.Lag.TotalByTopic().Sorted() {
			q := queue{g.Group, topic.Topic}
			sum, err := r.total(q, g.Lag[topic.Topic], ends)
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("group %s, topic %s: %w", q.group, q.topic, err))
			case r.admit(q):
				out[q.series(lagSeries)], out[q.series(committedSeries)] = sum.lag, sum.end-sum.lag
				out[fmt.Sprintf("%s{topic=%q}", endSeries, q.topic)] = sum.end
				if !sum.first {
					out[q.series(overdueSeries)] = sum.overdue
				}
			}
		}
	}
	r.ends = ends
	if len(out) == 0 {
		return nil, cmp.Or(errors.Join(failed...), errNoGroups)
	}
	return out, nil
}

var errNoGroups = errors.New("no consumer group has committed anything yet")

type sum struct {
	lag, end, overdue float64
	first             bool // a partition was not read before
}

// total adds up a topic's partitions and notes their ends; one that is unknown
// is an error.
func (r *Reader) total(q queue, partitions map[int32]kadm.GroupMemberLag, ends map[partition]int64) (s sum, err error) {
	for n, p := range partitions {
		if p.Err != nil {
			return sum{}, fmt.Errorf("partition %d: %w", n, p.Err)
		}
		at := partition{q.topic, n}
		ends[at] = p.End.Offset
		before, known := r.ends[at]
		s.first = s.first || !known
		s.lag += float64(p.Lag)
		s.end += float64(p.End.Offset)
		committed := p.End.Offset - p.Lag
		has := r.all[part{q.group, at}]
		if has == nil {
			has = &progress{committed: committed, end: p.End.Offset}
			r.all[part{q.group, at}] = has
		}
		s.overdue += float64(has.read(committed, p.End.Offset, before))
	}
	return s, nil
}

// admit says whether a queue has a place, and remembers it.
func (r *Reader) admit(q queue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.queues[q] && len(r.queues) >= mostQueues {
		return false
	}
	r.queues[q] = true
	return true
}

func (r *Reader) join(group string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined[group] = true
}

// SelfAssigned says whether a resource is the queue of a group that never had a member when it was read: who commits for it has
// given the partitions to itself, as Flink does, and may tell by itself what it has still to do.
func (r *Reader) SelfAssigned(resource string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q := range r.queues {
		if q.name() == resource {
			return !r.joined[q.group]
		}
	}
	return false
}

// name is that of its resource.
func (q queue) name() string { return q.topic + "/" + q.group }

func (q queue) series(name string) string {
	return fmt.Sprintf("%s{group=%q,topic=%q}", name, q.group, q.topic)
}

// Resources are the queues that were read so far, TOPIC/GROUP, by name. Who
// consumes them is not told: a group's name need not be a service's.
func (r *Reader) Resources() []topology.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []topology.Resource
	for q := range r.queues {
		out = append(out, topology.Resource{
			Name: q.name(), Kind: topology.Queue,
			Depth: q.series(overdueSeries), Done: q.series(committedSeries),
		})
	}
	slices.SortFunc(out, func(a, b topology.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
