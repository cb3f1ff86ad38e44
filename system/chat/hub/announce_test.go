package hub

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"loadstone/block/websocket"
	"loadstone/system/chat"
)

func TestAllInARoomAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	a, b, other := f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 2})
	for _, c := range []*client{a, b, other} {
		c.expect(websocket.Text, "hello 0 false")
	}
	f.Announce(1, []byte("news"), true)
	f.Announce(1, []byte("less"), false)
	f.Announce(99, []byte("nobody"), true)
	f.Announce(2, []byte("others"), true)
	a.expect(websocket.Text, "news")
	b.expect(websocket.Text, "news")
	b.expect(websocket.Text, "less")
	other.expect(websocket.Text, "others")
}

// What need not be told at once comes with the next messages, behind them.
func TestAnAnnouncementComesWithMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Tick = time.Second })
	a, b := f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 1, Deflate: true})
	for _, c := range []*client{a, b} {
		c.expect(websocket.Text, "hello 0 false")
	}
	f.say(1, "at once")
	a.read(1)
	b.read(1)
	f.say(1, "a tick later")
	f.Announce(1, []byte("less"), false)
	f.Announce(1, []byte("and less"), false)
	for _, c := range []*client{a, b} {
		c.read(2)
		c.expect(websocket.Text, "less")
		c.expect(websocket.Text, "and less")
	}
}

func TestWhoJoinsIsWelcomed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.say(1, "before")
	c := f.mustJoin(Viewer{Room: 1, Known: true, Welcome: func(next uint64, recovered bool) ([][]byte, error) {
		return [][]byte{fmt.Appendf(nil, "from %d, %v", next, recovered), []byte("two")}, nil
	}})
	c.expect(websocket.Text, "hello 0 true")
	c.expect(websocket.Text, "from 0, true")
	c.expect(websocket.Text, "two")
	c.read(1)
	c = f.mustJoin(Viewer{Room: 1, Welcome: func(uint64, bool) ([][]byte, error) { return nil, chat.ErrTooMany }})
	c.closed(Forbidden)
}

func TestVisits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	good, bad := f.mustJoin(Viewer{Room: 1, Session: "good"}), f.mustJoin(Viewer{Room: 1, Session: "bad"})
	good.expect(websocket.Text, "hello 0 false")
	bad.expect(websocket.Text, "hello 0 false")
	f.Visit(1, func(c *Conn) {
		if c.Session == "bad" {
			c.Close(Forbidden, "banned")
		} else {
			c.Tell([]byte("look"))
		}
	})
	bad.closed(Forbidden)
	good.expect(websocket.Text, "look")
	elsewhere := f.mustJoin(Viewer{Room: 2, Session: "bad"})
	elsewhere.expect(websocket.Text, "hello 0 false")
	f.VisitAll(func(c *Conn) {
		if c.Session == "bad" {
			c.Close(Expired, "over")
		} else {
			c.Tell([]byte("all"))
		}
	})
	elsewhere.closed(Expired)
	good.expect(websocket.Text, "all")
}

// Who is blocked goes without what need not be, and is told the rest in its time.
func TestABlockedViewerGoesWithout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.SendBuffer, c.MaxPrivate = 4<<10, 512 })
	c := f.mustJoin(Viewer{Room: 1})
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	const news = 20_000 // more than the network holds
	for range news {
		f.Announce(1, []byte(strings.Repeat("y", 200)), false)
	}
	f.Announce(1, []byte("important"), true)
	heard := 0
	for {
		_, payload, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		if payload == "important" {
			break
		}
		heard++
	}
	if heard >= news {
		t.Errorf("a blocked viewer was told all %d", heard)
	}
}

// What is redacted is so for who joins later, and where it was published while the room was opened or is
// published only then.
func TestWhatIsRedactedIsNotSeen(t *testing.T) {
	t.Parallel()
	deleted := func(offset uint64) []byte {
		m := chat.Message{Offset: offset, Sender: "s", ID: "x", Deleted: true}
		return m.Append(nil)
	}
	began, read := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *Config) {
		open := c.Open
		c.Open = func(ctx context.Context, id int64) (*chat.Room, error) {
			r, err := open(ctx, id)
			close(began)
			<-read
			return r, err
		}
	})
	f.Redact(1, 0, deleted(0)) // nobody is there
	for i := range 3 {
		f.say(1, fmt.Sprint("secret ", i))
	}
	joined := make(chan *client)
	go func() {
		c, err := f.join(Viewer{Room: 1})
		if err != nil {
			t.Error(err)
		}
		joined <- c
	}()
	<-began
	f.say(1, "secret 3")
	f.Redact(1, 1, deleted(1)) // it is read
	f.Redact(1, 3, deleted(3)) // it waits
	f.Redact(1, 4, deleted(4)) // it is not published yet
	close(read)
	c := <-joined
	f.say(1, "secret 4")
	f.Redact(1, 0, deleted(0))
	f.Redact(1, 5, deleted(5)) // it is not published yet
	f.say(1, "secret 5")
	c.expect(websocket.Text, "hello 0 false")
	c.read(6)
	late := f.mustJoin(Viewer{Room: 1})
	late.expect(websocket.Text, "hello 0 false")
	if _, payload, err := late.frame(); err != nil || strings.Count(payload, "secret") != 1 || !strings.Contains(payload, "secret 2") {
		t.Errorf("got %s, %v", payload, err)
	}
}
