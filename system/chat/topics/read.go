package topics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"loadstone/block/pause"
	"loadstone/system/chat"
)

// Record is a record of a topic.
type Record struct {
	// Message is what one of raw-chats says, unless Err says that it is none. Of another topic's there is only Err.
	Message chat.Raw
	Err     error
	// Topic, Partition, Offset and Value are its own.
	Topic     string
	Partition int32
	Offset    int64
	Value     []byte
}

// Reader reads a topic together with others of its group.
type Reader struct {
	// Topic is Raw, Analysis or Summaries; empty for Raw.
	Topic string
	// Group is its name.
	Group string
	// Most bounds the records of a batch.
	Most int
	// Linger is how long a batch that has few records waits for more.
	Linger time.Duration
	// Take is called with the records of all partitions that this reader has, in order within
	// each. What it has returned nil for does not come again, but after a crash. Else it is
	// called with the same ones again.
	Take func(ctx context.Context, batch []Record) error
	// Rewind has each partition that this reader is given read again from so long ago on; 0 has it go on where the
	// group was.
	Rewind time.Duration
	// Back, if it is there, has the partitions that it has read again, too, from Rewind before the time that it says. What
	// is further behind stays there.
	Back <-chan time.Time
	// Failed is told of what goes wrong and is tried again.
	Failed func(error)
	// Recovered, if it is there, is called where that is over, though nothing has come since.
	Recovered func()
}

const (
	sessionTimeout = 6 * time.Second // the shortest of Kafka's default configuration
	heartbeat      = 2 * time.Second
	commitTimeout  = 5 * time.Second
	againPause     = 200 * time.Millisecond
	pollTimeout    = time.Second
	// lingerBytes is some hundred messages: a batch of them does not linger.
	lingerBytes = 32 << 10
)

// Read reads until ctx ends. It begins where the group is, at first with the oldest record.
func (c *Client) Read(ctx context.Context, r Reader) error {
	r.Topic = cmp.Or(r.Topic, Raw)
	var back atomic.Pointer[time.Time] // nil if it is not to go back
	group, err := kgo.NewClient(
		kgo.SeedBrokers(c.cfg.Brokers...), kgo.ClientID("chat"), kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic),
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, given map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return c.earlier(ctx, given, &r, back.Load())
		}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMinBytes(lingerBytes), kgo.FetchMaxWait(r.Linger), kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(heartbeat),
	)
	if err != nil {
		return fmt.Errorf("read %s as %s: %w", r.Topic, r.Group, err)
	}
	defer group.CloseAllowingRebalance()
	for ctx.Err() == nil {
		c.goBack(ctx, group, &r, &back)
		polling, cancel := context.WithTimeout(ctx, pollTimeout) // then it is looked whether to go back
		fetched := group.PollRecords(polling, r.Most)
		cancel()
		if records := fetched.Records(); len(records) > 0 {
			r.take(ctx, group, records)
		} else if err := fetched.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			r.Failed(err)
			pause.For(ctx, againPause)
		} else if r.Recovered != nil && c.answers(ctx, r.Group) { // without brokers there is nothing new either
			r.Recovered()
		}
		group.AllowRebalance()
	}
	return nil
}

// goBack goes back if the reader is told to, or was and could not. to is where; nil for nowhere.
func (c *Client) goBack(ctx context.Context, group *kgo.Client, r *Reader, to *atomic.Pointer[time.Time]) {
	select {
	case t := <-r.Back:
		if before := to.Load(); before == nil || t.Before(*before) { // else it goes further back as it is
			to.Store(&t)
		}
	default:
	}
	at := to.Load()
	if at == nil {
		return
	}
	switch gone, err := c.back(ctx, group, r.Topic, at.Add(-r.Rewind)); {
	case gone:
		to.Store(nil)
	case err != nil && ctx.Err() == nil: // it is tried again
		r.Failed(fmt.Errorf("go back to %v before %s: %w", r.Rewind, at.Format(time.TimeOnly), err))
	}
}

// answers reports whether Kafka knows where a group is.
func (c *Client) answers(ctx context.Context, group string) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	at, err := kadm.NewClient(c.inner).FetchOffsets(ctx, group)
	return err == nil && at.Error() == nil
}

// since lists the first offsets of a time on.
func (c *Client) since(ctx context.Context, topic string, from time.Time) (kadm.ListedOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	listed, err := kadm.NewClient(c.inner).ListOffsetsAfterMilli(ctx, from.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	return listed, err
}

// back has a group read again from a time on what it has read of its partitions. gone is
// false as long as it has none.
func (c *Client) back(ctx context.Context, group *kgo.Client, topic string, from time.Time) (gone bool, err error) {
	read := map[int32]kgo.EpochOffset{}
	maps.Copy(read, group.CommittedOffsets()[topic])
	maps.Copy(read, group.UncommittedOffsets()[topic]) // those of a commit that failed
	if len(read) == 0 {
		return false, nil
	}
	listed, err := c.since(ctx, topic, from)
	if err != nil {
		return false, err
	}
	to := map[string]map[int32]kgo.EpochOffset{topic: {}}
	for partition, at := range read {
		if o, ok := listed.Lookup(topic, partition); ok && o.Offset < at.Offset {
			to[topic][partition] = kgo.EpochOffset{Epoch: o.LeaderEpoch, Offset: o.Offset}
		}
	}
	group.SetOffsets(to)
	return true, nil
}

// earlier is where partitions that are given to a reader begin. back is when it is to go back
// to; nil for not at all.
func (c *Client) earlier(ctx context.Context, given map[string]map[int32]kgo.Offset, r *Reader, back *time.Time) (map[string]map[int32]kgo.Offset, error) {
	from := time.Now()
	switch {
	case back != nil:
		from = *back
	case r.Rewind == 0:
		return given, nil
	}
	listed, err := c.since(ctx, r.Topic, from.Add(-r.Rewind))
	if err != nil {
		return nil, err
	}
	for partition, offset := range given[r.Topic] {
		if o, ok := listed.Lookup(r.Topic, partition); ok && o.Offset < offset.EpochOffset().Offset {
			given[r.Topic][partition] = offset.At(o.Offset)
		}
	}
	return given, nil
}

// take hands on records until they are done, and commits them.
func (r *Reader) take(ctx context.Context, group *kgo.Client, records []*kgo.Record) {
	batch := make([]Record, len(records))
	for i, record := range records {
		batch[i] = Record{Topic: r.Topic, Partition: record.Partition, Offset: record.Offset, Value: record.Value}
		if r.Topic == Raw {
			batch[i].Message, batch[i].Err = chat.ParseRaw(record.Value)
		} else {
			_, batch[i].Err = ParseResult(r.Topic, record.Value)
		}
	}
	for {
		err := r.Take(ctx, batch)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		r.Failed(err)
		if !pause.For(ctx, againPause) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout) // what is done is done
	defer cancel()
	if err := group.CommitRecords(ctx, records...); err != nil {
		r.Failed(fmt.Errorf("commit: %w", err)) // no loss: it comes again, or the next commit is further
	}
}

// PutAside writes a record that is not what its topic has to the topic's dead-letter topic, with the reason.
func (c *Client) PutAside(ctx context.Context, r *Record) error {
	err := c.inner.ProduceSync(ctx, &kgo.Record{Topic: r.Topic + deadSuffix, Value: r.Value, Headers: []kgo.RecordHeader{
		{Key: "reason", Value: []byte(r.Err.Error())},
		{Key: "place", Value: fmt.Appendf(nil, "%s %d %d", r.Topic, r.Partition, r.Offset)},
	}}).FirstErr()
	if err != nil {
		return fmt.Errorf("put a record of %s aside: %w", r.Topic, err)
	}
	return nil
}

// maxResult bounds a record of results, in bytes.
const maxResult = 8 << 10

var errResult = errors.New("it is no result of an analysis")

// resultTypes are of what the records of topics with results are.
var resultTypes = map[string]string{Analysis: "totals", Summaries: "summary"}

// ParseResult reads of a record of a topic with results which stream it is about. The whole of it is what viewers are told.
func ParseResult(topic string, value []byte) (stream int64, err error) {
	var r struct {
		Stream int64  `json:"stream"`
		Type   string `json:"type"`
	}
	if len(value) > maxResult {
		return 0, fmt.Errorf("%w: %d bytes", errResult, len(value))
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return 0, fmt.Errorf("%w: %w", errResult, err)
	}
	if r.Type != resultTypes[topic] || r.Stream < 1 {
		return 0, fmt.Errorf("%w: type %q, stream %d", errResult, r.Type, r.Stream)
	}
	return r.Stream, nil
}

// Results hears what is written to the topics with results from now on, until ctx ends: each server all of it.
func (c *Client) Results(ctx context.Context, heard func(topic string, value []byte), failed func(error)) error {
	all, err := kgo.NewClient(kgo.SeedBrokers(c.cfg.Brokers...), kgo.ClientID("chat"), kgo.ConsumeTopics(Analysis, Summaries),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(againPause))
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	defer all.Close()
	for ctx.Err() == nil {
		fetched := all.PollFetches(ctx)
		fetched.EachRecord(func(r *kgo.Record) { heard(r.Topic, r.Value) })
		if err := fetched.Err(); err != nil && ctx.Err() == nil {
			failed(err)
			pause.For(ctx, againPause)
		}
	}
	return nil
}
