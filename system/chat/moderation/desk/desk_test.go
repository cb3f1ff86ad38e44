package desk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/system/chat"
	"loadstone/system/chat/moderation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a log, of which offset is the place in the slice.
type memory struct {
	mu       sync.Mutex
	messages []chat.Message
	records  map[string][]byte
	entries  []string
	fail     error
	now      func() time.Time
}

func (m *memory) Time(int64) time.Time { return m.now() }

func (m *memory) Alter(a *chat.Alteration) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	for name, value := range a.Records {
		if m.records[name] = value; value == nil {
			delete(m.records, name)
		}
	}
	entry, err := a.Entry(uint64(len(m.entries)))
	m.entries = append(m.entries, string(entry))
	if a.Delete == nil {
		return nil, err
	}
	m.messages[*a.Delete].Delete()
	return m.messages[*a.Delete].Append(nil), err
}

func (m *memory) EachRecord(take func(stream int64, name string, value []byte) error) error {
	for name, value := range m.records {
		if err := take(1, name, value); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) After(_ int64, from uint64, count int) (all []chat.Encoded, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := from; i < uint64(len(m.messages)) && len(all) < count; i++ {
		all = append(all, chat.Encoded{Offset: i, Bytes: m.messages[i].Append(nil)})
	}
	return all, nil
}

func (m *memory) Before(_ int64, before uint64, count int) ([]chat.Encoded, error) {
	end := min(before, uint64(len(m.messages)))
	return m.After(1, end-min(end, uint64(count)), int(min(end, uint64(count))))
}

// crowd writes down what viewers are told.
type crowd struct {
	mu   sync.Mutex
	told []string
}

func (c *crowd) sayf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func (c *crowd) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.told, "|")
	c.told = nil
	return all
}

func (c *crowd) Publish(_ int64, offset uint64, message []byte) {
	m, _ := chat.ParseMessage(message)
	c.sayf("%d %s", offset, m.Text)
}
func (c *crowd) Redact(_ int64, offset uint64, _ []byte)  { c.sayf("redact %d", offset) }
func (c *crowd) Announce(_ int64, message []byte, _ bool) { c.sayf("%s", message) }
func (c *crowd) Remove(_ int64, user string, why error)   { c.sayf("remove %s: %v", user, why) }
func (c *crowd) Count(int64) int                          { return 0 }
func (c *crowd) Tell(_ int64, message []byte, to func(string, moderation.Role) bool) {
	for user, own := range map[string]moderation.Role{"host": moderation.Host, "mod": moderation.Viewer, "viewer": moderation.Viewer} {
		if to(user, own) {
			c.sayf("to %s %d", user, strings.Count(string(message), `"offset"`))
		}
	}
}

type fixture struct {
	t *testing.T
	*Desk

	log   *memory
	crowd *crowd
	room  *Room
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, log: &memory{records: map[string][]byte{}}, crowd: &crowd{}, now: time.UnixMilli(1_800_000_000_000)}
	f.log.now = func() time.Time { return f.now }
	f.open()
	return f
}

// open makes a desk of what is stored.
func (f *fixture) open() {
	f.t.Helper()
	c := DefaultConfig()
	c.Log, c.Viewers, c.Registerer, c.Queue = f.log, f.crowd, prometheus.NewRegistry(), 2
	c.Hosts = func(_ int64, user string) bool { return user == "host" }
	c.Now = func() time.Time { return f.now }
	var err error
	if f.Desk, err = New(c); err != nil {
		f.t.Fatal(err)
	}
	f.room = f.Room(1)
}

func (f *fixture) act(a moderation.Action) error {
	return f.do(&Task{Stream: 1, By: moderation.Actor{User: "host", Name: "Noor", Role: moderation.Host}, Action: a})
}

func (f *fixture) say(text string) {
	f.log.mu.Lock()
	m := chat.Message{Offset: uint64(len(f.log.messages)), At: f.now.UnixMilli(), Sender: "viewer", Name: "V", ID: "1", Text: text}
	f.log.messages = append(f.log.messages, m)
	f.log.mu.Unlock()
	f.Said(f.room, m.Offset, m.Append(nil))
}

func (f *fixture) told(want string) {
	f.t.Helper()
	if got := f.crowd.take(); got != want {
		f.t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestAnActionIsStoredThenTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.say("hello")
	f.told("0 hello")
	offset := uint64(0)
	for _, c := range []struct {
		a    moderation.Action
		want string
	}{
		{moderation.Action{Kind: moderation.Pin, Offset: &offset}, `{"type":"pinned","message":{"offset":0,"at":1800000000000,"sender":"viewer","name":"V","id":"1","text":"hello"}}`},
		{moderation.Action{Kind: moderation.Delete, Offset: &offset}, `redact 0|{"type":"deleted","offsets":[0]}|{"type":"pinned","message":null}`},
		{moderation.Action{Kind: moderation.Ban, User: "viewer"}, `remove viewer: you are banned from this chat`},
		{moderation.Action{Kind: moderation.Unban, User: "viewer"}, ""},
		{moderation.Action{Kind: moderation.Appoint, User: "mod"}, "to mod 0"},
		{moderation.Action{Kind: moderation.Set, Settings: &moderation.Settings{Slow: 5, Words: []string{"bad"}}}, `{"type":"settings","slow":5,"followers":false,"subscribers":false,"emotes":false,"unique":false,"delay":0}`},
	} {
		if err := f.act(c.a); err != nil {
			t.Errorf("%s: %v", c.a.Kind, err)
		}
		f.told(c.want)
	}
	if len(f.log.entries) != 6 || !strings.HasPrefix(f.log.entries[1], `{"number":1,"at":1800000000000,"by":"host","name":"Noor","action":"delete","offset":0,"user":"viewer"`) {
		t.Errorf("the log is %q", f.log.entries)
	}
	f.open()
	if got := f.room.Settings(); got.Slow != 5 || f.room.Role("mod", moderation.Viewer) != moderation.Moderator || len(f.room.Deleted()) != 1 {
		t.Errorf("after a start: got %+v", got)
	}
}

func TestAModeratorDoesNotDeleteTheHostsMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.messages = append(f.log.messages, chat.Message{Sender: "host", Name: "Noor", ID: "1", Text: "hello"})
	if err := f.act(moderation.Action{Kind: moderation.Appoint, User: "mod"}); err != nil {
		t.Fatal(err)
	}
	offset := uint64(0)
	task := &Task{Stream: 1, By: moderation.Actor{User: "mod"}, Action: moderation.Action{Kind: moderation.Delete, Offset: &offset}}
	if err := f.do(task); !errors.Is(err, moderation.ErrRole) || f.log.messages[0].Deleted {
		t.Errorf("got %v, %+v", err, f.log.messages[0])
	}
}

func TestWhatIsNotStoredIsNotInForce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.fail = chat.ErrUnavailable
	if err := f.act(moderation.Action{Kind: moderation.Ban, User: "viewer"}); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	f.told("")
	if err := f.room.Enter(&moderation.Speaker{User: "viewer"}); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestMessagesAreHeldBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	delay := func(seconds int) {
		t.Helper()
		if err := f.act(moderation.Action{Kind: moderation.Set, Settings: &moderation.Settings{Delay: seconds}}); err != nil {
			t.Fatal(err)
		}
		f.crowd.take()
	}
	pass := func(d time.Duration) {
		f.now = f.now.Add(d)
		for _, r := range f.holding() {
			f.show(r)
		}
	}
	f.say("at once")
	f.told("0 at once")
	delay(5)
	f.say("one")
	f.say("two")
	pass(time.Second)
	f.told("to host 2")
	f.say("three")
	offset := uint64(2)
	if err := f.act(moderation.Action{Kind: moderation.Delete, Offset: &offset}); err != nil {
		t.Fatal(err)
	}
	f.crowd.take()
	pass(time.Second)
	f.told("to host 1")
	if got := f.room.Shown(); got != 1 {
		t.Errorf("shown to %d, want 1", got)
	}
	f.room.TellHeld() // another host has joined
	pass(time.Second)
	f.told("to host 3")
	pass(2 * time.Second)
	f.told("1 one|2 ") // the second one was deleted
	f.open()           // a crash
	if got := f.room.Shown(); got != 3 {
		t.Errorf("shown to %d after a start, want 3", got)
	}
	pass(0)
	f.told("to host 1")
	f.say("four")
	delay(0)
	f.say("five")
	f.told("")
	pass(0)
	f.told("3 three|4 four|5 five")
	if f.room.Shown() < 1<<60 || len(f.holding()) != 0 {
		t.Error("it is still held back")
	}
	f.say("six")
	f.told("6 six")
}

// While it is switched on and off, nothing is left out, shown twice or out of order.
func TestNothingIsLostBetweenHeldAndNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var turn sync.WaitGroup
	ended := make(chan struct{})
	turn.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			for _, r := range f.holding() {
				f.show(r)
			}
		}
	})
	turn.Go(func() {
		for i := range 50 {
			if err := f.room.Load("settings", fmt.Appendf(nil, `{"delay":%d}`, i%2)); err != nil {
				t.Error(err)
			}
		}
	})
	const messages = 2000
	for i := range messages {
		f.say(fmt.Sprint("text", i))
	}
	if err := f.room.Load("settings", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	close(ended)
	turn.Wait()
	if err := f.room.Load("settings", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.holding() {
		f.show(r)
	}
	seen := 0
	for s := range strings.SplitSeq(f.crowd.take(), "|") {
		switch {
		case strings.HasPrefix(s, "to host"):
		case s == fmt.Sprintf("%d text%d", seen, seen):
			seen++
		default:
			t.Fatalf("got %q in place of message %d", s, seen)
		}
	}
	if seen != messages {
		t.Errorf("got %d messages", seen)
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done := make(chan error, 3)
	task := Task{Stream: 1, By: moderation.Actor{User: "host", Role: moderation.Host}, Action: moderation.Action{Kind: moderation.Unpin}, Done: func(err error) { done <- err }}
	for i := range 3 {
		if err := f.Start(&task); errors.Is(err, chat.ErrOverloaded) != (i == 2) {
			t.Errorf("task %d: got %v", i, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := f.Reactions.Add(1, "heart"); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if strings.Contains(f.crowd.take(), `{"heart":1}`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("reactions are not told")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := f.Start(&task); err != nil {
		t.Fatal(err)
	}
	if err := f.Run(ctx); err != nil { // it is over at once
		t.Error(err)
	}
	if err := <-done; err != nil && !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
