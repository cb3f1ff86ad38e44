package broadcast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
)

const long = time.Minute // more than anything takes that does not hang

func open(t *testing.T, redis *servertest.RedisServer, keep int) *Client {
	t.Helper()
	return openFor(t, redis, keep, long) // a busy machine's Redis answers
}

// openFor is open with the timeout of a call.
func openFor(t *testing.T, redis *servertest.RedisServer, keep int, timeout time.Duration) *Client {
	t.Helper()
	c := DefaultConfig()
	c.Address, c.Keep, c.Timeout = "redis://"+redis.Addr(), keep, timeout
	client, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func said(stream int64, sender, id string) *chat.Raw {
	return &chat.Raw{Stream: stream, Message: chat.Message{At: 1_800_000_000_123, Sender: sender, Name: "Noor", ID: id, Text: "안녕 " + id}}
}

// place places messages, which must work.
func place1(t *testing.T, c *Client, all ...*chat.Raw) []Placed {
	t.Helper()
	places := c.Place(t.Context(), all)
	for i, p := range places {
		if p.Err != nil {
			t.Fatalf("message %s: %v", all[i].ID, p.Err)
		}
	}
	return places
}

func offsets(all []chat.Encoded) (found []uint64) {
	for _, m := range all {
		found = append(found, m.Offset)
	}
	return found
}

func TestPlacesAreGivenOnce(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	c, other := open(t, redis, 3), open(t, redis, 3)
	again := said(1, "noor", "b")
	again.At += 1000
	for i, want := range []Placed{
		{Offset: 0, At: 1_800_000_000_123}, {Offset: 1, At: 1_800_000_000_123}, {Offset: 1, At: 1_800_000_000_123, Again: true}, // another's id is another
		{Offset: 2, At: 1_800_000_000_123}, {Offset: 0, At: 1_800_000_000_123},
	} {
		m := []*chat.Raw{said(1, "noor", "a"), said(1, "noor", "b"), again, said(1, "olga", "b"), said(2, "noor", "a")}[i]
		got := place1(t, []*Client{c, other}[i%2], m)[0]
		if got.Epoch == 0 {
			t.Errorf("message %d has no epoch", i)
		}
		if got.Epoch = 0; got != want {
			t.Errorf("message %d: got %+v, want %+v", i, got, want)
		}
	}
	h, err := c.History(t.Context(), 1, Range{To: chat.MaxStream, Most: 10})
	if err != nil || h.Next != 3 || !slices.Equal(offsets(h.Messages), []uint64{0, 1, 2}) {
		t.Fatalf("got %+v, %v", h, err)
	}
	for i, m := range h.Messages {
		got, err := chat.ParseMessage(m.Bytes)
		if err != nil || got.Offset != uint64(i) || !strings.HasPrefix(got.Text, "안녕 ") {
			t.Errorf("message %d is %s: %v", i, m.Bytes, err)
		}
	}
}

func TestHistoryIsWhatIsKept(t *testing.T) {
	t.Parallel()
	c := open(t, servertest.Redis(t), 5)
	var all []*chat.Raw
	for i := range 12 {
		all = append(all, said(7, "noor", fmt.Sprint(i)))
	}
	place1(t, c, all...)
	for _, k := range []struct {
		which Range
		want  []uint64
	}{
		{Range{To: 100, Most: 100}, []uint64{7, 8, 9, 10, 11}},
		{Range{From: 3, To: 9, Most: 100}, []uint64{7, 8}},
		{Range{To: 100, Most: 2}, []uint64{7, 8}},
		{Range{To: 100, Most: 2, Newest: true}, []uint64{10, 11}},
		{Range{To: 9, Most: 1, Newest: true}, []uint64{8}},
		{Range{From: 12, To: 100, Most: 10}, nil},
		{Range{To: 3, Most: 10}, nil},
		{Range{}, nil},
	} {
		h, err := c.History(t.Context(), 7, k.which)
		if err != nil || h.Next != 12 || !slices.Equal(offsets(h.Messages), k.want) {
			t.Errorf("%+v: got %v of %d, %v, want %v", k.which, offsets(h.Messages), h.Next, err, k.want)
		}
	}
}

// Summaries that are made again come in any order, and may be of messages that Redis has forgotten.
func TestTheNewestSummaryIsKept(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	c := open(t, redis, 2)
	place1(t, c, said(1, "noor", "a"), said(1, "noor", "b"), said(1, "noor", "c"))
	last := ""
	for i, k := range []struct {
		summary string
		kept    bool
	}{
		{`{"next":4}`, false}, {`{"next":2}`, true}, {`{"next":3,"text":"first"}`, true}, {`{"next":2}`, false}, {`{}`, false}, {`{"next":4}`, false}, {`{"next":3,"text":"again"}`, true},
	} {
		kept, err := c.KeepSummary(t.Context(), 1, []byte(k.summary))
		if k.kept {
			last = k.summary
		}
		if got, err2 := c.Summary(t.Context(), 1); errors.Join(err, err2) != nil || kept != k.kept || string(got) != last {
			t.Errorf("summary %d, %s: kept %v, %v; got %s, want %s", i, k.summary, kept, errors.Join(err, err2), got, last)
		}
	}
	redis.Command("SET", summaryKey(1), "not ours")
	if kept, err := c.KeepSummary(t.Context(), 1, []byte(`{"next":1}`)); !kept || err != nil {
		t.Errorf("in the place of what is no summary: got %v, %v", kept, err)
	}
	if _, err := c.KeepSummary(t.Context(), 1, []byte(`{"next":-1}`)); err == nil {
		t.Error("what is no summary was kept")
	}
}

// A Redis that takes connections and says nothing is waited for no longer than the configuration says, whoever asks.
func TestEachCallHasATimeout(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	c := openFor(t, redis, 10, DefaultConfig().Timeout)
	c.cfg.Timeout = 200 * time.Millisecond
	for name, call := range map[string]func(ctx context.Context) error{
		"place":        func(ctx context.Context) error { return c.Place(ctx, []*chat.Raw{said(1, "noor", "a")})[0].Err },
		"history":      func(ctx context.Context) error { _, err := c.History(ctx, 1, Range{}); return err },
		"keep summary": func(ctx context.Context) error { _, err := c.KeepSummary(ctx, 1, []byte("{}")); return err },
		"summary":      func(ctx context.Context) error { _, err := c.Summary(ctx, 1); return err },
	} {
		ended := make(chan error, 1)
		redis.Pause()
		go func() { ended <- call(context.WithoutCancel(t.Context())) }()
		err := wait(t, ended)
		redis.Resume()
		if err == nil {
			t.Errorf("%s: a Redis that said nothing has answered", name)
		}
	}
}

func TestAnotherRedisIsAnotherEpoch(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	c := open(t, redis, 10)
	before := place1(t, c, said(1, "noor", "a"))[0]
	redis.Kill()
	if got := c.Place(t.Context(), []*chat.Raw{said(1, "noor", "b")})[0]; got.Err == nil {
		t.Error("a message got a place from a Redis that is gone")
	}
	redis.Start()
	var after Placed
	for deadline := time.Now().Add(long); ; {
		if after = c.Place(t.Context(), []*chat.Raw{said(1, "noor", "c")})[0]; after.Err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(after.Err)
		}
	}
	if after.Epoch == before.Epoch {
		t.Errorf("the epoch is %v as before", after.Epoch)
	}
	if after.Offset == 0 {
		t.Error("what was synced is forgotten")
	}
}

func TestWhoListensHearsAllInOrder(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	c := open(t, redis, 10)
	ctx, cancel := context.WithCancel(t.Context())
	began, heard, lost, ended := make(chan struct{}, 9), make(chan Told, 99), make(chan error, 99), make(chan struct{})
	go func() {
		defer close(ended)
		c.Listen(ctx, Listener{
			Began: func() { began <- struct{}{} }, Again: func() {}, Heard: func(told Told) { heard <- told }, Lost: func(err error) {
				select {
				case lost <- err:
				default:
				}
			},
		})
	}()
	defer func() { cancel(); <-ended }()
	wait(t, began)
	redis.Command("PUBLISH", "broadcast:1", "no message of ours")
	redis.Command("PUBLISH", "broadcast:x", "0123456789abcdef 0 {}")
	places := place1(t, c, said(1, "noor", "a"), said(2, "noor", "a"), said(1, "noor", "a"), said(1, "noor", "b"))
	for _, want := range []Told{{Stream: 1, Offset: 0}, {Stream: 2, Offset: 0}, {Stream: 1, Offset: 1}} {
		got := wait(t, heard)
		if got.Stream != want.Stream || got.Offset != want.Offset || got.Epoch != places[0].Epoch {
			t.Errorf("heard %+v, want %+v", got, want)
		}
	}
	redis.Kill()
	if wait(t, lost) == nil {
		t.Error("it was lost without a reason")
	}
	redis.Start()
	wait(t, began)
}

func wait[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(long):
		t.Fatal("nothing came")
	}
	return got
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"redis://a": "a:6379", "redis://u:p@a:1": "a:1", "redis-sentinel://a,b:1/chat": "a:26379 b:1",
		"redis://": "", "redis://a,b": "", "redis://a/0": "", "redis-sentinel://a": "", "rediss://a": "", "redis://u:%zz@a": "", "": "", "redis://a:": "", "redis-sentinel://a,/x": "",
	} {
		c := DefaultConfig()
		c.Address = address
		err := c.Validate()
		if got := strings.Join(c.Where(), " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", address, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "%zz") {
			t.Errorf("%q: the error quotes the password: %v", address, err)
		}
	}
}
