package analyst

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// memory is a log in memory, of stream 1.
type memory struct {
	mu       sync.Mutex
	messages [][]byte
	notes    map[chat.Topic]map[uint64][]byte
	fail     func() error // asked before notes are stored
	batches  int
}

var stream = chat.Stream{ID: 1, Started: time.UnixMilli(1_000_000)}

func newMemory(messages ...chat.Message) *memory {
	l := &memory{notes: map[chat.Topic]map[uint64][]byte{}}
	for _, m := range messages {
		l.say(m)
	}
	return l
}

func (l *memory) say(m chat.Message) {
	m.Offset, m.Sender, m.ID = uint64(len(l.messages)), "u", "i"
	l.messages = append(l.messages, m.Append(nil))
}

func (l *memory) Notes(_ int64, r chat.NoteRange) (found []chat.Note, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := slices.Sorted(maps.Keys(l.notes[r.Topic]))
	if r.Newest {
		slices.Reverse(numbers)
	}
	for _, n := range numbers {
		if n >= r.From && n < r.To && len(found) < r.Most {
			found = append(found, chat.Note{Topic: r.Topic, Number: n, Value: l.notes[r.Topic][n]})
		}
	}
	return found, nil
}

func (l *memory) StoreNotes(_ int64, notes []chat.Note) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return err
		}
	}
	l.batches++
	for _, n := range notes {
		if l.notes[n.Topic] == nil {
			l.notes[n.Topic] = map[uint64][]byte{}
		}
		if l.notes[n.Topic][n.Number] = n.Value; n.Value == nil {
			delete(l.notes[n.Topic], n.Number)
		}
	}
	return nil
}

func (l *memory) Read(_ int64, from uint64, most int) (found []chat.Encoded, err error) {
	for o := from; o < uint64(len(l.messages)) && len(found) < min(most, 7); o++ { // less than was asked for, as a bound of bytes may
		found = append(found, chat.Encoded{Offset: o, Bytes: l.messages[o]})
	}
	return found, nil
}

func (l *memory) Stream(int64) (chat.Stream, error) { return stream, nil }
func (l *memory) Streams() []chat.Stream            { return []chat.Stream{stream} }
func (l *memory) Length(int64) uint64               { return uint64(len(l.messages)) }
func (l *memory) Ready() bool                       { return true }

// room is what is said in a test: 230 messages, the 50th after a silence and many at once.
func room() (all []chat.Message) {
	words := []string{"love this stream", "worst stream ever", "hahaha", "what is this song called?", "you should add salt"}
	for i := range 230 {
		at := int64(i) * 2000
		if i >= 50 {
			at = 300_000 + int64(i)*100
		}
		all = append(all, chat.Message{At: 1_000_000 + at, Name: fmt.Sprint("n", i), Text: fmt.Sprintf("%s %c", words[i%5], 'a'+i%26)})
	}
	return all
}

// heard is what viewers are told.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) announce(_ int64, message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, string(message))
}

func (h *heard) of(kind string) (found []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.all {
		if strings.HasPrefix(m, `{"type":"`+kind+`"`) {
			found = append(found, m)
		}
	}
	return found
}

func config(l Log, h *heard) Config {
	c := DefaultConfig()
	c.Log, c.Announce, c.Registerer, c.Every, c.Chunk = l, h.announce, prometheus.NewRegistry(), time.Millisecond, 33
	return c
}

// run runs an analyst until something is so.
func run(t *testing.T, a *Analyst, until func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	for !until() {
		if ctx.Err() != nil {
			t.Error("it never came to that")
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// analysed runs until all of a log is.
func analysed(t *testing.T, l *memory, h *heard) *Analyst {
	t.Helper()
	a := New(config(l, h))
	end := fmt.Sprintf(`"next":%d,`, len(l.messages))
	run(t, a, func() bool {
		return slices.ContainsFunc(h.of("totals"), func(m string) bool { return strings.Contains(m, end) })
	})
	return a
}

func TestTotals(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	analysed(t, l, h)
	totals, err := LoadTotals(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := Totals{Type: "totals", Next: 230, Labels: Labels{46, 46, 46, 46, 46}}
	if *totals != want {
		t.Errorf("got %+v, want %+v", *totals, want)
	}
	if all := h.of("totals"); all[len(all)-1] != string(encode(want)) {
		t.Errorf("viewers were told %s", all[len(all)-1])
	}
}

// Whatever is interrupted where, what is found is the same, and nothing is counted twice.
func TestAnInterruptionChangesNothing(t *testing.T) {
	t.Parallel()
	whole := newMemory(room()...)
	analysed(t, whole, &heard{})
	for at := range 8 {
		l := newMemory(room()...)
		broken := errors.New("the disk")
		stop := make(chan struct{})
		l.fail = func() error {
			if l.batches == at {
				select {
				case <-stop:
				default:
					close(stop)
				}
				return broken
			}
			return nil
		}
		failures := 0
		c := config(l, &heard{})
		c.Failed = func(err error) {
			if !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
			failures++
		}
		a := New(c)
		run(t, a, func() bool {
			select {
			case <-stop:
				return true
			default:
				return false
			}
		})
		if failures == 0 || a.lag() == 0 {
			t.Errorf("%d: %d failures, lag %d", at, failures, a.lag())
		}
		l.fail = nil
		analysed(t, l, &heard{}) // another process
		for topic, notes := range whole.notes {
			for number, want := range notes {
				if got := l.notes[topic][number]; !bytes.Equal(got, want) {
					t.Errorf("interrupted at %d, note %d of %d: got %s, want %s", at, number, topic, got, want)
				}
			}
			if len(l.notes[topic]) != len(notes) {
				t.Errorf("interrupted at %d: %d notes of %d, want %d", at, len(l.notes[topic]), topic, len(notes))
			}
		}
	}
}

// What another model has counted is no part of the totals; its summaries stay, and its highlights are told once.
func TestAnotherModelBeginsAnew(t *testing.T) {
	t.Parallel()
	whole := newMemory(room()...)
	analysed(t, whole, &heard{})
	for _, model := range []string{`{"model":"1-old","next":210,`, `{"next":210,`} {
		l, h := newMemory(room()...), &heard{}
		text := encode(&stored{Text: "they liked it"})
		err := l.StoreNotes(1, []chat.Note{
			{Topic: chat.NoteState, Value: []byte(model + `"counts":[1000,0,0,0,0]}`)}, {Topic: chat.NoteSpan, Number: 999, Value: []byte("{}")},
			{Topic: chat.NoteHighlight, Number: 5, Value: []byte("{}")}, {Topic: chat.NoteDead, Number: 3, Value: []byte("{}")},
			{Topic: chat.NoteSummary, Number: 100, Value: text}, {Topic: chat.NoteSummary, Number: 200, Value: text},
		})
		if err != nil {
			t.Fatal(err)
		}
		if totals, err := LoadTotals(l, 1); err != nil || *totals != (Totals{Type: "totals"}) {
			t.Errorf("before it is analysed again: got %+v, %v", totals, err)
		}
		analysed(t, l, h)
		totals, err := LoadTotals(l, 1)
		want, err2 := LoadTotals(whole, 1)
		if errors.Join(err, err2) != nil || *totals != *want {
			t.Errorf("got %+v, want %+v, %v", totals, want, errors.Join(err, err2))
		}
		for _, topic := range []chat.Topic{chat.NoteSpan, chat.NoteHighlight, chat.NoteDead} {
			if !maps.EqualFunc(l.notes[topic], whole.notes[topic], bytes.Equal) {
				t.Errorf("notes of %d: got %v, want %v", topic, l.notes[topic], whole.notes[topic])
			}
		}
		if got := l.notes[chat.NoteSummary]; len(got) != 2 || !bytes.Equal(got[200], text) {
			t.Errorf("summaries: got %v", got)
		}
		if told := append(h.of("highlight"), h.of("summary")...); len(told) != 0 {
			t.Errorf("viewers were told again: %s", told)
		}
	}
}

func TestAMessageThatCannotBeReadStopsNothing(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()[:10]...), &heard{}
	l.messages[4] = []byte(`{"offset":4,"text":5}`)
	deleted := chat.Message{Offset: 6, Sender: "u"}
	deleted.Delete()
	l.messages[6] = deleted.Append(nil)
	a := analysed(t, l, h)
	totals, err := LoadTotals(l, 1)
	if err != nil || totals.Dead != 1 || totals.Deleted != 1 || totals.Next != 10 || totals.Labels != (Labels{2, 1, 2, 2, 1}) {
		t.Errorf("got %+v, %v", totals, err)
	}
	if got := testutil.ToFloat64(a.metrics.dead); got != 1 {
		t.Errorf("%v dead letters are counted", got)
	}
	letters, err := load[DeadLetter](l, 1, chat.NoteRange{Topic: chat.NoteDead, To: math.MaxUint64, Most: 10})
	if err != nil || len(letters) != 1 || !bytes.Equal(letters[0].Bytes, l.messages[4]) || letters[0].Reason == "" {
		t.Errorf("got %+v, %v", letters, err)
	}
}

func TestSummariesLeaveOutWhatWasDeleted(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	analysed(t, l, h)
	if n := len(l.notes[chat.NoteSummary]); n != 2 {
		t.Fatalf("%d summaries, want 2", n)
	}
	s, err := LoadSummary(l, 1)
	if err != nil || s.From != 0 || s.Next != 200 || len(s.Lines) != 3 {
		t.Fatalf("got %+v, %v", s, err)
	}
	if told := h.of("summary"); !slices.Contains(told, string(encode(s))) {
		t.Errorf("viewers were told %s, and later %s", told, encode(s))
	}
	gone := s.Lines[1]
	m, err := chat.ParseMessage(l.messages[gone.Offset])
	if err != nil {
		t.Fatal(err)
	}
	m.Delete()
	l.messages[gone.Offset] = m.Append(nil)
	after, err := LoadSummary(l, 1)
	if err != nil || len(after.Lines) != 2 || slices.Contains(after.Lines, gone) {
		t.Errorf("got %+v, %v", after, err)
	}
	for topic, notes := range l.notes {
		for _, value := range notes {
			if bytes.Contains(value, []byte(gone.Text)) {
				t.Errorf("a note of %d has what was said: %s", topic, value)
			}
		}
	}
}

func TestSpansAndHighlights(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	analysed(t, l, h)
	spans, err := LoadSpans(l, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for i, s := range spans {
		if n != s.First || i > 0 && s.At <= spans[i-1].At {
			t.Errorf("span %d begins with %d, want %d", s.At, s.First, n)
		}
		n += s.Counts.Sum()
	}
	if n != 230 {
		t.Errorf("the spans have %d messages", n)
	}
	all, err := LoadHighlights(l, 1, 10)
	if err != nil || len(all) == 0 || all[0].Video != 300_000 || all[0].Why != "rate" {
		t.Errorf("got %+v, %v", all, err)
	}
	if told := h.of("highlight"); len(told) != len(all) {
		t.Errorf("viewers were told %s", told)
	}
}

// At most one update of a stream in the time: some may be late, but none is early.
func TestUpdatesAreBounded(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	c := config(l, h)
	c.Every, c.Chunk = 40*time.Millisecond, 1
	a := New(c)
	began := time.Now()
	run(t, a, func() bool { return a.lag() == 0 && len(h.of("totals")) > 0 })
	if most := int(time.Since(began)/c.Every) + 1; len(h.of("totals")) > most {
		t.Errorf("%d updates, want %d at most", len(h.of("totals")), most)
	}
}

func TestWhatIsPublishedLaterIsFound(t *testing.T) {
	t.Parallel()
	l, h := newMemory(), &heard{}
	a := New(config(l, h))
	all := room()
	l.say(all[0])
	l.say(all[1])
	a.Published(1, 1) // the second is not shown yet
	run(t, a, func() bool { return len(h.of("totals")) > 0 })
	if totals, err := LoadTotals(l, 1); err != nil || totals.Next != 1 {
		t.Errorf("got %+v, %v", totals, err)
	}
	a.Published(1, 2)
	if a.lag() != 1 {
		t.Errorf("the lag is %d", a.lag())
	}
	run(t, a, func() bool { return a.lag() == 0 })
}

// writer is a language model.
type writer struct {
	text string
	err  error
	wait chan struct{}
}

func (w *writer) Summarise(ctx context.Context, texts []string) (string, error) {
	if len(texts) == 0 {
		return "", errors.New("no texts")
	}
	if w.wait != nil {
		select {
		case <-w.wait:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return w.text, w.err
}

func TestAModelWritesSummaries(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	c := config(l, h)
	c.Model = &writer{text: "<b>they liked it</b>"}
	run(t, New(c), func() bool {
		return slices.ContainsFunc(h.of("summary"), func(m string) bool { return strings.Contains(m, "liked it") && strings.Contains(m, `"next":200`) })
	})
	s, err := LoadSummary(l, 1)
	if err != nil || s.Text != "<b>they liked it</b>" || len(s.Lines) != 3 {
		t.Fatalf("got %+v, %v", s, err)
	}
	gone := chat.Message{Offset: 7}
	gone.Delete()
	l.messages[7] = gone.Append(nil)
	if s, err := LoadSummary(l, 1); err != nil || s.Text != "" {
		t.Errorf("after a message was deleted: got %+v, %v", s, err)
	}
}

// A text that comes late is kept with its summary, and viewers keep the newer one.
func TestALateTextReplacesNoNewerSummary(t *testing.T) {
	t.Parallel()
	l, h := newMemory(room()...), &heard{}
	c := config(l, h)
	model := &writer{text: "they liked it", wait: make(chan struct{})}
	c.Model = model
	has := func(parts ...string) bool {
		return slices.ContainsFunc(h.of("summary"), func(m string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(m, part) })
		})
	}
	late := false
	run(t, New(c), func() bool {
		if !late && has(`"next":200`) {
			late = true
			close(model.wait)
		}
		return has(`"next":200`, "liked it")
	})
	newest := uint64(0)
	for _, m := range h.of("summary") {
		var s Summary
		if err := json.Unmarshal([]byte(m), &s); err != nil {
			t.Fatal(err)
		}
		if s.Next < newest {
			t.Errorf("after the summary before %d: got %s", newest, m)
		}
		newest = s.Next
	}
	if got := string(l.notes[chat.NoteSummary][100]); !strings.Contains(got, "liked it") {
		t.Errorf("the first summary is %s", got)
	}
}

// A model that fails, or hangs, takes nothing from what the analysis finds.
func TestWithoutTheModelThereAreSummaries(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]*writer{"fails": {err: errors.New("no such model")}, "hangs": {wait: make(chan struct{})}} {
		l, h := newMemory(slices.Repeat(room(), 10)...), &heard{}
		c := config(l, h)
		c.Model, c.Queue = model, 1
		a := New(c)
		run(t, a, func() bool { return a.lag() == 0 })
		s, err := LoadSummary(l, 1)
		if err != nil || s.Next != 2300 || s.Text != "" || len(s.Lines) == 0 {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
		if model.wait != nil && testutil.ToFloat64(a.metrics.shed) < 23-2 {
			t.Errorf("%v were not asked for", testutil.ToFloat64(a.metrics.shed))
		}
	}
}

// What viewers are told is in the contract.
func TestWhatIsToldAgreesWithTheContract(t *testing.T) {
	t.Parallel()
	want := map[string][]byte{
		"totals":       encode(&Totals{Type: "totals", Next: 18, Labels: Labels{7, 1, 5, 2, 1}, Deleted: 1, Dead: 1}),
		"summary":      encode(&Summary{Type: "summary", From: 0, Next: 100, Lines: []Line{{17, "민수", "노래 좋다 <b>"}}}),
		"model":        encode(&Summary{Type: "summary", From: 100, Next: 300, Lines: []Line{}, Text: "They liked the song."}),
		"highlight":    encode(&Highlight{"highlight", analysis.Highlight{Video: 300_000, Offset: 50, Messages: 31, Usual: 6, Label: "laughter", Why: "rate"}}),
		"other_labels": encode(&Highlight{"highlight", analysis.Highlight{Video: 10_000, Offset: 8, Messages: 12, Usual: 11, Label: "question", Why: "labels"}}),
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "contract", "analysis.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		var r struct {
			Name string `json:"name"`
			Wire string `json:"wire"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		n++
		if r.Wire != string(want[r.Name]) {
			t.Errorf("%s: got\n%s, want\n%s", r.Name, want[r.Name], r.Wire)
		}
	}
	if n != len(want) {
		t.Errorf("the contract has %d records, want %d", n, len(want))
	}
}
