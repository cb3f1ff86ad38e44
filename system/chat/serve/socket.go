package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"loadstone/block/forwarded"
	"loadstone/block/httpserver"
	"loadstone/block/route"
	"loadstone/block/websocket"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/moderation"
	"loadstone/system/chat/moderation/desk"
)

// session is what is known of a viewer.
type session struct {
	user     chat.User
	network  string
	room     *desk.Room
	own      moderation.Role // without having been appointed
	relation atomic.Pointer[chat.Relation]
	met      atomic.Bool  // the room knows the name
	underWay atomic.Int32 // messages without an answer
}

// sessionOf is that of a connection if it is the user's, or nil.
func sessionOf(c *hub.Conn, user string) *session {
	if said, ok := c.Session.(*session); ok && said.user.ID == user {
		return said
	}
	return nil
}

// maxUnderWay bounds those of one connection.
const maxUnderWay = 16

// socket answers GET /ws.
func (s *server) socket(ctx *fasthttp.RequestCtx) error {
	accept, err := websocket.Accept(func(name string) string { return string(ctx.Request.Header.Peek(name)) })
	if err != nil {
		return handshakeError(ctx, err)
	}
	if err := s.ours(ctx); err != nil {
		return err
	}
	args := ctx.QueryArgs()
	stream, err := s.stream(string(args.Peek("stream")))
	user, wrong := s.joining(string(args.Peek("token")), stream.ID)
	if err := cmp.Or(wrong, err); err != nil {
		return failure(err)
	}
	network := s.network(ctx)
	said := &session{user: user, network: network.String(), room: s.desk.Room(stream.ID), own: ownRole(&user, &stream)}
	if err := cmp.Or(said.room.Enter(said.speaker()), s.relate(said, stream.HostID)); err != nil {
		return failure(err)
	}
	v := hub.Viewer{Room: stream.ID, Address: network, Until: user.Until.Add(-s.margin(&user)), Session: said}
	if v.Known, v.From, err = s.place(args); err != nil {
		return err
	}
	if !s.ready() {
		return &route.Error{Code: route.NotReady}
	}
	if err := s.hub.Admit(v.Room, v.Address); err != nil {
		return failure(err)
	}
	v.Hello = func(next uint64, recovered bool) []byte {
		j := chat.Joined{Epoch: s.log.Epoch(), Next: next, Recovered: recovered, User: user.ID, Name: user.Name, Role: string(said.role())}
		return j.Append(nil)
	}
	v.Welcome = said.welcome
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusSwitchingProtocols)
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", accept)
	if agreed := s.deflate(ctx); agreed != "" {
		h.Set("Sec-WebSocket-Extensions", agreed)
		v.Deflate = true
	}
	ctx.Hijack(func(c net.Conn) { s.join(c, v) })
	return nil
}

// deflate is what of the extensions that a client offers is agreed to, or nothing.
func (s *server) deflate(ctx *fasthttp.RequestCtx) string {
	if !s.cfg.Compression {
		return ""
	}
	return websocket.AgreeDeflate(string(bytes.Join(ctx.Request.Header.PeekAll("Sec-WebSocket-Extensions"), []byte(","))))
}

func handshakeError(ctx *fasthttp.RequestCtx, err error) error {
	if errors.Is(err, websocket.ErrKey) {
		return &route.Error{Code: route.BadRequest, Text: err.Error()}
	}
	h := &ctx.Response.Header
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Version", websocket.Version)
	return &route.Error{Code: codeUpgrade, Text: err.Error()}
}

// joining is who joins a stream with an entry for it, or as a guest with a guest's token. The
// access token of who has signed up may do more, and servers and proxies write addresses down.
func (s *server) joining(token string, stream int64) (chat.User, error) {
	c, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	u, err := s.access.Check(token)
	if err != nil || u.Role != chat.Guest {
		u, err = s.access.CheckEntry(token, stream)
	}
	if err != nil {
		return u, err
	}
	return s.now(c, u)
}

// margin is how long before its token a connection ends, so that the viewer can have another
// one for it.
func (s *server) margin(u *chat.User) time.Duration {
	ttl := s.cfg.TokenTTL
	if u.Role != chat.Guest {
		ttl = s.cfg.AccessTTL
	}
	return min(time.Minute, ttl/10)
}

// place reads where a viewer was: nowhere if there is no epoch, or another log's.
func (s *server) place(args *fasthttp.Args) (known bool, from uint64, err error) {
	epoch := string(args.Peek("epoch"))
	if epoch == "" {
		return false, 0, nil
	}
	if from, err = strconv.ParseUint(string(args.Peek("offset")), 10, 64); err != nil {
		return false, 0, &route.Error{Code: route.BadRequest, Text: "offset is " + strconv.Quote(string(args.Peek("offset"))) + ": write a number, as it was in what the server sent"}
	}
	return epoch == s.log.Epoch().String(), from, nil
}

// network is whom the connection is for.
func (s *server) network(ctx *fasthttp.RequestCtx) netip.Addr {
	peer, ok := ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return forwarded.Network(s.cfg.Proxies.Client(peer.AddrPort().Addr().Unmap(), ctx.Request.Header.PeekAll("X-Forwarded-For")))
}

// join gives the connection to the hub. It runs once the answer has been sent: what goes wrong
// from here on is a close frame. The connection is closed after it; its socket lives on.
func (s *server) join(c net.Conn, v hub.Viewer) {
	const timeout = 5 * time.Second // to read the end of a log from a busy disk
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	fd, err := httpserver.Descriptor(c)
	if err == nil {
		if err = s.hub.Join(ctx, fd, v); err != nil {
			_ = unix.Close(fd)
			s.failed(err)
		}
	}
	if said, ok := v.Session.(*session); ok && err == nil {
		if said.role() != moderation.Viewer {
			said.room.TellHeld()
		}
		s.stillIn(ctx, said)
	}
	if err != nil {
		_, _ = c.Write(websocket.AppendClose(nil, websocket.TryLater, known(err).Message)) // who cannot be told sees the end
	}
}

// receive is told what a viewer says. It runs on the viewer's event loop.
func (s *server) receive(c *hub.Conn, payload []byte) {
	said, ok := c.Session.(*session)
	if !ok {
		return
	}
	send, err := chat.ParseSend(payload)
	if errors.Is(err, chat.ErrRequest) {
		s.request(c, said, payload)
		return
	}
	if err == nil {
		err = s.accept(said, c.Room(), &send)
	}
	if err != nil {
		c.Tell(refusal(send.ID, err))
		return
	}
	said.underWay.Add(1)
	err = s.log.Say(&chat.Draft{
		Stream:  c.Room(),
		Message: chat.Message{At: s.log.Time(c.Room()).UnixMilli(), Sender: said.user.ID, Name: said.user.Name, ID: send.ID, Text: send.Text, Mentions: said.room.Mentions(send.Text)},
		Done: func(r *chat.Said) {
			said.underWay.Add(-1)
			if r.Err != nil {
				s.failed(r.Err)
				c.Tell(refusal(send.ID, r.Err))
				return
			}
			if r.Unplaced {
				c.Tell(chat.AppendAccepted(nil, send.ID))
				return
			}
			if !r.Again {
				s.desk.Said(said.room, r.Offset, r.Encoded)
			}
			c.Tell(chat.AppendAck(nil, send.ID, r.Offset))
		},
	})
	if err != nil {
		said.underWay.Add(-1)
		s.failed(err)
		c.Tell(refusal(send.ID, err))
	}
}

// accept decides whether a message may be said.
func (s *server) accept(said *session, room int64, send *chat.Send) error {
	if said.underWay.Load() >= maxUnderWay || !within(s.users, said.user.ID, s.cfg.MessagesPerUser) ||
		!within(s.networks, said.network, s.cfg.MessagesPerNetwork) || !within(s.rooms, strconv.FormatInt(room, 10), s.cfg.MessagesPerRoom) {
		return chat.ErrTooMany
	}
	if err := said.room.Check(time.Now(), said.speaker(), send); err != nil {
		return err
	}
	if !said.met.Swap(true) {
		said.room.Meet(said.user.Name, said.user.ID)
	}
	return nil
}

// refusal is what a client is told of an error.
func refusal(id string, err error) []byte {
	if wait, ok := errors.AsType[*chat.WaitError](err); ok {
		return chat.AppendLater(nil, id, wait)
	}
	if errors.Is(err, moderation.ErrAction) { // it says what is wrong
		return chat.AppendRefusal(nil, id, &chat.Error{Code: moderation.ErrAction.Code, Message: err.Error()})
	}
	return chat.AppendRefusal(nil, id, known(err))
}

// known is what a client is told of an error.
func known(err error) *chat.Error {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return e
	}
	return chat.ErrUnavailable
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && text == u.Scheme+"://"+u.Host && !strings.Contains(text, "@")
}
