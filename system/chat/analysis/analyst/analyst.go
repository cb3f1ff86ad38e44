// Package analyst follows the log of a chat and writes down what it finds: what messages are,
// in all and by the time of the show, summaries, and moments in which something happened. See
// package analysis for how.
//
//	log: messages ──► Analyst ──► log: notes, with how far it is
//	                     └──► viewers: totals, summaries, highlights
//
// It is never on a message's way: it reads what is durable and published, may fall behind, and then catches
// up. What it finds in some messages is stored together with the place behind them, so that
// after a crash it goes on from there, and nothing is counted twice or left out. What another
// model has counted is counted again from the first message on: totals are of one model. A message
// that it cannot read becomes a dead letter, and is counted as one.
package analyst

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// Notes is where notes are read.
type Notes interface {
	Notes(stream int64, which chat.NoteRange) ([]chat.Note, error)
}

// Log is the log of the chat. What it returns is durable.
type Log interface {
	Notes
	// Read returns messages from an offset on, in order: one at least if there is one, and most at most.
	Read(stream int64, from uint64, most int) ([]chat.Encoded, error)
	// StoreNotes stores notes, all or none.
	StoreNotes(stream int64, notes []chat.Note) error
	Stream(id int64) (chat.Stream, error)
	Streams() []chat.Stream
	// Length is the offset of the next message.
	Length(stream int64) uint64
	// Ready reports whether notes can be stored.
	Ready() bool
}

// Config says how to follow a log. Log and Announce are for the caller to set.
type Config struct {
	Log Log
	// Announce tells the viewers of a stream; it must not block. Who misses it hears of the next.
	Announce func(stream int64, message []byte)
	// Every is the shortest time between two updates of a stream.
	Every time.Duration
	// Chunk is how many messages of a stream are read before it is another's turn.
	Chunk int
	// Model writes summaries beside those of the analysis; nil for none. Queue bounds those that
	// wait for it: beyond, a summary has no text of its.
	Model Model
	Queue int
	// Failed is told of what goes wrong, once for each second at most.
	Failed func(error)
	// Registerer receives the metrics, see newMetrics.
	Registerer prometheus.Registerer
}

// Model is a language model.
type Model interface {
	// Summarise returns a text for messages, of 1 to chat.MaxText characters.
	Summarise(ctx context.Context, texts []string) (string, error)
}

// DefaultConfig tells viewers five times a second.
func DefaultConfig() Config {
	return Config{Every: time.Second / 5, Chunk: 500, Queue: 16}
}

// maxStates bounds the streams of which the state is in memory. Those that were dropped are read again.
const maxStates = 10_000

// Analyst follows a log.
type Analyst struct {
	cfg     Config
	metrics *metrics
	states  map[int64]*state // only Run's
	wishes  chan wish
	texts   chan text

	mu     sync.Mutex
	due    map[int64]progress // of streams that are not analysed to the end
	failed time.Time          // when Failed was told last
}

// progress is how far a stream is published and analysed.
type progress struct{ next, reached uint64 }

// New returns an analyst of all that is in the log. It works while it Runs.
func New(cfg Config) *Analyst {
	a := &Analyst{cfg: cfg, states: map[int64]*state{}, due: map[int64]progress{}, wishes: make(chan wish, cfg.Queue), texts: make(chan text)}
	a.metrics = newMetrics(cfg.Registerer, a.lag)
	for _, s := range cfg.Log.Streams() {
		if next := cfg.Log.Length(s.ID); next > 0 {
			a.due[s.ID] = progress{next: next} // its state, which is read later, says where it is
		}
	}
	return a
}

// Published says that the viewers of a stream have been sent all before an offset. It does not block.
func (a *Analyst) Published(stream int64, next uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.due[stream]
	if !ok {
		p.reached = next - 1
	}
	p.next = max(p.next, next)
	a.due[stream] = p
}

// lag is how many messages are published and not analysed.
func (a *Analyst) lag() (n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.due {
		n += p.next - min(p.next, p.reached)
	}
	return n
}

// Run follows the log until ctx ends.
func (a *Analyst) Run(ctx context.Context) error {
	var models sync.WaitGroup
	if a.cfg.Model != nil {
		models.Go(func() { a.grant(ctx) })
	}
	defer models.Wait()
	told := time.NewTimer(a.cfg.Every)
	defer told.Stop()
	changed := map[int64]*news{}
	for {
		more := a.round(ctx, changed)
		select {
		case <-ctx.Done():
			return nil
		case <-told.C:
		case t := <-a.texts:
			if err := a.written(t, changed); err != nil {
				a.report(err)
			}
			continue
		case <-always(more):
			continue
		}
		for stream, n := range changed {
			a.tell(stream, n)
		}
		clear(changed)
		told.Reset(a.cfg.Every)
	}
}

// always is a channel from which something comes at once, or never.
func always(yes bool) <-chan struct{} {
	if !yes {
		return nil
	}
	c := make(chan struct{})
	close(c)
	return c
}

// news is what viewers are to be told of a stream.
type news struct {
	totals     *Totals
	summary    *Summary
	highlights []*analysis.Highlight
}

// and is what viewers are to be told who were not told of n yet, which may be nil.
func (n *news) and(later *news) *news {
	if n == nil {
		return later
	}
	later.highlights = append(n.highlights, later.highlights...)
	if later.summary == nil {
		later.summary = n.summary
	}
	return later
}

func (a *Analyst) tell(stream int64, n *news) {
	a.cfg.Announce(stream, encode(n.totals))
	if n.summary != nil {
		a.cfg.Announce(stream, encode(n.summary))
	}
	for _, h := range n.highlights {
		a.cfg.Announce(stream, encode(&Highlight{"highlight", *h}))
	}
}

// round reads a chunk of each stream that has something new, and reports whether some have more.
func (a *Analyst) round(ctx context.Context, changed map[int64]*news) (more bool) {
	if !a.cfg.Log.Ready() {
		return false
	}
	if len(a.states) > maxStates {
		clear(a.states)
	}
	a.mu.Lock()
	due := maps.Clone(a.due)
	a.mu.Unlock()
	for stream, p := range due {
		if ctx.Err() != nil {
			return false
		}
		reached, found, err := a.advance(stream, p.next)
		if err != nil {
			a.report(fmt.Errorf("analyse stream %d: %w", stream, err))
			delete(a.states, stream) // what is stored counts
			continue
		}
		if found != nil {
			changed[stream] = changed[stream].and(found)
		}
		more = a.reach(stream, reached) || more
	}
	return more
}

// reach notes how far a stream is, and reports whether there is more.
func (a *Analyst) reach(stream int64, reached uint64) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.due[stream]
	if p.next <= reached {
		delete(a.due, stream)
		return false
	}
	p.reached = reached
	a.due[stream] = p
	return true
}

// report tells of a failure, unless one was told just now.
func (a *Analyst) report(err error) {
	a.metrics.failures.Inc()
	a.mu.Lock()
	now := time.Now()
	quiet := now.Sub(a.failed) < time.Second
	if !quiet {
		a.failed = now
	}
	a.mu.Unlock()
	if !quiet && a.cfg.Failed != nil {
		a.cfg.Failed(err)
	}
}

// chunk is what is found in some messages of a stream.
type chunk struct {
	stream  chat.Stream
	state   *state
	notes   []chat.Note
	news    *news
	counted analysis.Counts
	dead    uint64
	wishes  []wish
}

// advance analyses a chunk of a stream, before next at most. It returns how far it is then,
// and what was found, nil if there was nothing to do.
func (a *Analyst) advance(id int64, next uint64) (reached uint64, found *news, err error) {
	s := a.states[id]
	if s == nil {
		if s, err = loadState(a.cfg.Log, id); err != nil {
			return 0, nil, err
		}
		a.states[id] = s
	}
	if s.Next >= next {
		return s.Next, nil, nil
	}
	stream, err := a.cfg.Log.Stream(id)
	if err != nil {
		return 0, nil, err
	}
	messages, err := a.cfg.Log.Read(id, s.Next, min(a.cfg.Chunk, int(next-s.Next)))
	if err != nil {
		return 0, nil, err
	}
	if len(messages) == 0 {
		return 0, nil, errors.New("messages that were published are not in the log")
	}
	c := &chunk{stream: stream, state: s, news: &news{}}
	if s.Next == 0 && s.Before > 0 {
		if c.notes, err = forget(a.cfg.Log, id); err != nil {
			return 0, nil, err
		}
	}
	for _, f := range messages {
		if err := a.add(c, f); err != nil {
			return 0, nil, err
		}
	}
	if now := &s.Timeline.Now; now.Counts.Sum() > 0 {
		c.note(chat.NoteSpan, uint64(now.At), now)
	}
	c.note(chat.NoteState, 0, s)
	if err := a.cfg.Log.StoreNotes(id, c.notes); err != nil {
		return 0, nil, err
	}
	a.metrics.count(c)
	for _, w := range c.wishes {
		a.wish(w)
	}
	c.news.totals = s.totals()
	return s.Next, c.news, nil
}

func (c *chunk) note(topic chat.Topic, number uint64, value any) {
	c.notes = append(c.notes, chat.Note{Topic: topic, Number: number, Value: encode(value)})
}

// add analyses a message.
func (a *Analyst) add(c *chunk, f chat.Encoded) error {
	s := c.state
	s.Next = f.Offset + 1
	switch m, err := chat.ParseMessage(f.Bytes); {
	case err != nil:
		s.Dead++
		c.dead++
		c.note(chat.NoteDead, f.Offset, &DeadLetter{Reason: err.Error(), Bytes: f.Bytes})
	case m.Deleted:
		s.Deleted++
	default:
		label := analysis.Classify(m.Text)
		s.Counts[label]++
		c.counted[label]++
		c.time(&m, f.Offset, label)
	}
	if s.Next%analysis.SummaryEvery == 0 && s.Next > s.Before {
		return a.summarise(c, s.Next)
	}
	return nil
}

// DeadLetter is a message that could not be analysed.
type DeadLetter struct {
	Reason string `json:"reason"`
	Bytes  []byte `json:"bytes"`
}

// time puts a message in its place in the show.
func (c *chunk) time(m *chat.Message, offset uint64, label analysis.Label) {
	t := &c.state.Timeline
	before := t.Now
	h := t.Add(Video(&c.stream, m.At), offset, label)
	if t.Now.At != before.At && before.Counts.Sum() > 0 {
		c.note(chat.NoteSpan, uint64(before.At), &before)
	}
	if h != nil {
		if offset >= c.state.Before {
			c.news.highlights = append(c.news.highlights, h)
		}
		c.note(chat.NoteHighlight, uint64(h.Video), h)
	}
}

// Video is the time of a show at a time, both in milliseconds. Before it began it is 0.
func Video(s *chat.Stream, at int64) int64 { return max(0, at-s.Started.UnixMilli()) }

// summarise makes a summary of the messages before an offset.
func (a *Analyst) summarise(c *chunk, next uint64) error {
	from := next - min(next, analysis.SummaryOf)
	all, err := read(a.cfg.Log, c.stream.ID, from, next)
	if err != nil {
		return err
	}
	var texts []string
	var offsets []uint64
	for i := range all {
		if !all[i].Deleted {
			texts, offsets = append(texts, all[i].Text), append(offsets, all[i].Offset)
		}
	}
	found := &stored{From: from, Offsets: []uint64{}}
	for _, i := range analysis.Summarise(texts) {
		found.Offsets = append(found.Offsets, offsets[i])
	}
	if c.news.summary, err = tell(a.cfg.Log, c.stream.ID, next, found); err != nil {
		return err
	}
	c.note(chat.NoteSummary, next, found)
	c.wishes = append(c.wishes, wish{c.stream.ID, next, found, texts})
	return nil
}
