package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
)

// sent is how many bytes a Redis has sent.
func sent(t *testing.T, redis *servertest.RedisServer) int {
	t.Helper()
	for line := range strings.Lines(redis.Command("INFO", "stats")) {
		if text, ok := strings.CutPrefix(line, "total_net_output_bytes:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO stats has no total_net_output_bytes")
	return 0
}

// The end of a room is what the limit says, and no more than that and one page of messages is read for it, whatever they
// are and however many Redis keeps.
func TestTheEndOfARoomIsReadAsFarAsItIsWanted(t *testing.T) {
	t.Parallel()
	const length = 1000
	redis := servertest.Redis(t)
	c := broadcast.DefaultConfig()
	c.Address, c.Keep, c.Timeout = "redis://"+redis.Addr(), length, time.Minute // on a busy machine
	client, err := broadcast.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l := &Log{cfg: Config{Broadcast: c}, broadcast: client}
	epoch, err := client.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.epoch.Store(uint64(epoch))
	sizes := make([]int, length)
	for i := range length {
		m := chat.Message{Offset: uint64(i), At: 1, Sender: "noor", Name: "Noor", ID: fmt.Sprint(i), Text: strings.Repeat("🎤", 400+i*7%100)}
		sizes[i] = len(m.Append(nil))
		if p := client.Place(t.Context(), []*chat.Raw{{Stream: 1, Message: m}})[0]; p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	for _, k := range []struct {
		before uint64
		limit  chat.Limit
	}{
		{chat.MaxStream, chat.Limit{Messages: 1 << 20, Bytes: 64 << 10}}, {chat.MaxStream, chat.Limit{Messages: 50, Bytes: 64 << 10}},
		{chat.MaxStream, chat.Limit{Messages: 3, Bytes: 64 << 10}}, {500, chat.Limit{Messages: 1 << 20, Bytes: 1}},
		{700, chat.Limit{Messages: 450, Bytes: 64 << 20}}, {900, chat.Limit{Messages: 1 << 20, Bytes: 64 << 20}},
		{1, chat.Limit{Messages: 50, Bytes: 64 << 10}}, {0, chat.Limit{Messages: 50, Bytes: 64 << 10}},
	} {
		end := int(min(k.before, length))
		first, size := end, 0
		for first > 0 && end-first < k.limit.Messages && (first == end || size+sizes[first-1] <= k.limit.Bytes) {
			first--
			size += sizes[first]
		}
		var want, got []uint64
		for i := first; i < end; i++ {
			want = append(want, uint64(i))
		}
		was := sent(t, redis)
		found, next, err := l.newest(1, k.before, k.limit)
		read := sent(t, redis) - was
		for _, m := range found {
			got = append(got, m.Offset)
		}
		if err != nil || next != length || !slices.Equal(got, want) {
			t.Errorf("before %d, %+v: got %d, next %d, %v, want %d", k.before, k.limit, got, next, err, want)
		}
		const aside = 64 << 10 // the answers to INFO, and what is around messages
		if most := size + fillMost*chat.MaxMessage + aside; read > most {
			t.Errorf("before %d, %+v: %d bytes were read for %d, want %d at most", k.before, k.limit, read, size, most)
		}
	}
	l.cfg.Broadcast.Timeout = time.Nanosecond // while each page of its own has a minute
	if found, _, err := l.newest(1, chat.MaxStream, chat.Limit{Messages: 1 << 20, Bytes: 64 << 20}); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("when the time for all pages was over: got %d messages, %v", len(found), err)
	}
}
