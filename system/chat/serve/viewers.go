package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/singleflight"

	"loadstone/block/route"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
)

// Who asks for counts of viewers is sent them when they change, looked at every countEvery, and
// something at all every heartbeat, so that the network does not forget the connection. One who
// takes nothing for writeTimeout is disconnected.
const (
	countEvery   = 500 * time.Millisecond
	heartbeat    = 15 * time.Second
	writeTimeout = 5 * time.Second
)

// maxCounted bounds the streams of one who asks: some pages of the list.
const maxCounted = 5 * pageStreams

// counters bounds those who ask.
type counters struct {
	most, mostPerNetwork int

	mu        sync.Mutex
	all       int
	byNetwork map[netip.Addr]int
}

func newCounters(c *Config) *counters {
	return &counters{most: c.MaxCounters, mostPerNetwork: c.MaxCountersPerNetwork, byNetwork: map[netip.Addr]int{}}
}

// admit reports whether there is room for one more now, for an answer to who asks. enter decides.
func (c *counters) admit(network netip.Addr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room(network)
}

func (c *counters) room(network netip.Addr) error {
	switch {
	case c.all >= c.most:
		return chat.ErrFull
	case c.byNetwork[network] >= c.mostPerNetwork:
		return chat.ErrTooMany
	}
	return nil
}

// enter counts one more, if there is room; leave is the inverse.
func (c *counters) enter(network netip.Addr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.room(network); err != nil {
		return err
	}
	c.all++
	c.byNetwork[network]++
	return nil
}

func (c *counters) leave(network netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.byNetwork[network]--; c.byNetwork[network] == 0 {
		delete(c.byNetwork, network)
	}
}

// count is of a stream's viewers now.
type count struct {
	Stream  int64 `json:"stream"`
	Viewers int   `json:"viewers"`
	Ended   bool  `json:"ended,omitempty"`
}

// viewers answers GET /api/viewers?streams=: server-sent events, each an array of counts. They
// are of the connections that there are, so that they are right from the first one after a
// crash on. The connection ends with the server, and browsers come back by themselves.
func (s *server) viewers(ctx *fasthttp.RequestCtx) error {
	var ids []int64
	for text := range strings.SplitSeq(string(ctx.QueryArgs().Peek("streams")), ",") {
		stream, err := s.stream(text)
		if err != nil {
			return failure(err)
		}
		ids = append(ids, stream.ID)
		if len(ids) > maxCounted {
			return &route.Error{Code: route.BadRequest, Text: fmt.Sprintf("streams has more than %d ids: write 1 to %d, with commas", maxCounted, maxCounted)}
		}
	}
	network := s.network(ctx)
	if err := s.counters.admit(network); err != nil {
		return failure(err)
	}
	// The server would end an answer that takes so long.
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		// Not before: whose connection fails until then is never handed over.
		if s.counters.enter(network) == nil {
			defer s.counters.leave(network)
			s.tellCounts(c, ids)
		}
	})
	return nil
}

const eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n" +
	"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 2000\n\n"

// tellCounts sends counts until the connection or the server ends.
func (s *server) tellCounts(c net.Conn, ids []int64) {
	send := func(text string) bool {
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // then the write fails
		_, err := c.Write([]byte(text))
		return err == nil
	}
	_ = c.SetReadDeadline(time.Time{}) // it only notes the time
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // nobody says anything more
	}()
	inner := c
	if hijacked, ok := c.(interface{ UnsafeConn() net.Conn }); ok {
		inner = hijacked.UnsafeConn() // whose Close does not wait for the end of this
	}
	defer func() {
		_ = inner.Close() // it is over either way
		<-gone
	}()
	if !send(eventsHead) {
		return
	}
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var told []count
	for said := time.Now(); s.ready(); {
		if now := s.counts(ids); !slices.Equal(now, told) || time.Since(said) > heartbeat {
			text, err := json.Marshal(now)
			if err != nil || !send("data: "+string(text)+"\n\n") {
				return
			}
			told, said = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-gone:
			return
		}
	}
}

func (s *server) counts(ids []int64) []count {
	all := make([]count, len(ids))
	for i, id := range ids {
		stream, err := s.log.Stream(id)
		all[i] = count{id, s.hub.Viewers(id), err != nil || !stream.Live()}
	}
	return all
}

// presence is who of those who have signed up is in a room.
type presence struct {
	Viewers int       `json:"viewers"`
	Users   []present `json:"users"`
}

type present struct {
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Picture string    `json:"picture"`
	Role    chat.Role `json:"role"`
}

// Bounds of presence: who is looked at, who is shown, and for how long an answer is good for others.
const (
	maxPresent   = 1000
	maxShown     = 100
	presentFor   = time.Second
	maxPresences = 1000
)

// presences are the last answers, so that many who ask cost as much as one, and those who ask
// for one that is being made wait for it.
type presences struct {
	making singleflight.Group

	mu    sync.Mutex
	rooms map[int64]madeAt
}

type madeAt struct {
	body []byte
	at   time.Time
}

func (p *presences) get(id int64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made := p.rooms[id]; time.Since(made.at) < presentFor {
		return made.body
	}
	return nil
}

func (p *presences) put(id int64, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rooms) >= maxPresences {
		clear(p.rooms)
	}
	p.rooms[id] = madeAt{body, time.Now()}
}

// presence answers GET /api/streams/{id}/presence: hosts and admins first, then by name.
func (s *server) presence(c context.Context, ctx *fasthttp.RequestCtx, id int64) error {
	if body := s.presences.get(id); body != nil {
		route.JSON(ctx, fasthttp.StatusOK, body)
		return nil
	}
	made, err, _ := s.presences.making.Do(strconv.FormatInt(id, 10), func() (any, error) { return s.present(c, id) })
	if body, ok := made.([]byte); ok && err == nil {
		s.presences.put(id, body)
		route.JSON(ctx, fasthttp.StatusOK, body)
	}
	return err
}

// present makes the answer.
func (s *server) present(c context.Context, id int64) ([]byte, error) {
	var mu sync.Mutex
	found := map[string]chat.User{}
	err := s.hub.Each(c, id, func(conn *hub.Conn) {
		of, ok := conn.Session.(*session)
		if !ok || of.user.Role == chat.Guest {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if len(found) < maxPresent {
			found[of.user.ID] = of.user
		}
	})
	if err != nil {
		return nil, err
	}
	p := presence{Viewers: s.hub.Viewers(id), Users: []present{}}
	mu.Lock() // who came too late may still look
	for _, u := range found {
		p.Users = append(p.Users, present{User: u.ID, Name: u.Name, Role: u.Role})
	}
	mu.Unlock()
	slices.SortFunc(p.Users, func(a, b present) int {
		return cmp.Or(cmp.Compare(rank(a.Role), rank(b.Role)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.User, b.User))
	})
	p.Users = p.Users[:min(len(p.Users), maxShown)]
	for i := range p.Users {
		u, err := s.people.Find(c, p.Users[i].User)
		if err != nil {
			continue // it has been removed meanwhile
		}
		p.Users[i].Name, p.Users[i].Picture = u.Name, u.Picture
	}
	return json.Marshal(p)
}

func rank(r chat.Role) int { return -slices.Index(chat.Roles(), r) }
