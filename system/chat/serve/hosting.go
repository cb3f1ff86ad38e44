package serve

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/block/websocket"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
)

// A host starts so many streams at once, and then one in a while: each is kept for good.
const startsOfHost, startAgain = 5, 10 * time.Minute

// startStream answers POST /api/streams.
func (s *server) startStream(c context.Context, ctx *fasthttp.RequestCtx) error {
	who, err := s.needs(c, ctx, chat.Host)
	if err != nil {
		return err
	}
	var form struct {
		Title string `json:"title"`
	}
	if err := read(ctx, &form, `{"title":"..."}`); err != nil {
		return err
	}
	if err := chat.CheckTitle(form.Title); err != nil {
		return err
	}
	if !s.tries.Take("start "+who.ID, startsOfHost, startAgain) {
		return chat.ErrTooMany
	}
	stream, err := s.log.StartStream(chat.Stream{Title: form.Title, Host: who.Name, HostID: who.ID, Started: time.Now().UTC()})
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusCreated, shown{stream, 0})
}

// change answers POST /api/streams/{id}/PART.
func (s *server) change(c context.Context, ctx *fasthttp.RequestCtx) error {
	id, part, _ := strings.Cut(strings.TrimPrefix(string(ctx.URI().PathOriginal()), "/api/streams/"), "/")
	do, ok := map[string]func(context.Context, *fasthttp.RequestCtx, chat.User, chat.Stream) error{
		"end": s.endStream, "enter": s.enter, "leave": s.leave, "actions": s.action,
	}[part]
	if !ok {
		return &route.Error{Code: route.NoSuchPath}
	}
	who, err := s.who(c, bearer(ctx))
	if err != nil {
		return err
	}
	stream, err := s.stream(id)
	if err != nil {
		return err
	}
	return do(c, ctx, who, stream)
}

// endStream is for the stream's host and for admins. What has ended stays so.
func (s *server) endStream(_ context.Context, ctx *fasthttp.RequestCtx, who chat.User, stream chat.Stream) error {
	if !who.Hosts(&stream) {
		return chat.ErrNotAllowed
	}
	if err := s.log.EndStream(stream.ID, s.log.Time(stream.ID).UTC()); err != nil {
		return err
	}
	stream, err := s.log.Stream(stream.ID)
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusOK, shown{stream, s.hub.Viewers(stream.ID)})
}

// enter gives what it takes to join: an entry, which may stand in an address.
func (s *server) enter(c context.Context, ctx *fasthttp.RequestCtx, who chat.User, stream chat.Stream) error {
	var relation chat.Relation
	if who.Role != chat.Guest && stream.HostID != "" {
		var err error
		if relation, err = s.relation(c, who.ID, stream.HostID); err != nil {
			return err
		}
	}
	entry, err := s.access.SignEntry(&who, stream.ID)
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusCreated, map[string]any{
		"token": entry, "epoch": s.log.Epoch().String(), "stream": shown{stream, s.hub.Viewers(stream.ID)}, "relation": relation,
	})
}

// leave ends all connections that the user has to the stream, for who closes a page and cannot
// wait for the network to notice.
func (s *server) leave(c context.Context, ctx *fasthttp.RequestCtx, who chat.User, stream chat.Stream) error {
	const most = 5 // each is a look at everybody in the room
	if !s.tries.Take("leave "+who.ID, most, time.Second) || !within(s.guests, "leave "+s.network(ctx).String(), s.cfg.GuestsPerNetwork) {
		return chat.ErrTooMany
	}
	err := s.hub.Each(c, stream.ID, func(conn *hub.Conn) {
		if sessionOf(conn, who.ID) != nil {
			conn.Close(websocket.Normal, "you left")
		}
	})
	if err == nil {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// host answers GET /api/hosts/{id}, and PUT and DELETE of .../follow and .../subscribers/{user}.
func (s *server) host(c context.Context, ctx *fasthttp.RequestCtx) error {
	id, part, _ := strings.Cut(strings.TrimPrefix(string(ctx.URI().PathOriginal()), "/api/hosts/"), "/")
	subscriber, subscribers := strings.CutPrefix(part, "subscribers/")
	switch {
	case s.accountsElsewhere():
		return chat.ErrNotHere
	case part == "" && ctx.IsGet():
		return s.showHost(c, ctx, id)
	case part == "follow" && !ctx.IsGet():
		return s.follow(c, ctx, id)
	case subscribers && !ctx.IsGet():
		return s.subscribe(c, ctx, id, subscriber)
	}
	return &route.Error{Code: route.NoSuchPath}
}

// showHost says who a host is, and to who is signed in also what it is to the host.
func (s *server) showHost(c context.Context, ctx *fasthttp.RequestCtx, id string) error {
	host, err := s.people.Find(c, id)
	if err == nil && (!host.Role.May(chat.Host) || strings.Contains(id, "@")) {
		err = chat.ErrNoUser
	}
	if err != nil {
		return err
	}
	form := map[string]any{"user": host.ID, "name": host.Name, "picture": host.Picture, "followers": host.Followers}
	if token := bearer(ctx); token != "" {
		who, err := s.who(c, token)
		if err != nil {
			return err
		}
		if form["relation"], err = s.people.Relation(c, who.ID, id); err != nil {
			return err
		}
	}
	return answer(ctx, fasthttp.StatusOK, form)
}

// follow has a user follow a host, or no longer.
func (s *server) follow(c context.Context, ctx *fasthttp.RequestCtx, host string) error {
	who, err := s.needs(c, ctx, chat.Member)
	if err != nil {
		return err
	}
	const most, again = 20, 5 * time.Second // each is a sync of the disk
	if !s.tries.Take("follow "+who.ID, most, again) {
		return chat.ErrTooMany
	}
	if ctx.IsPut() {
		err = s.people.Follow(c, who.ID, host)
	} else {
		err = s.people.Unfollow(c, who.ID, host)
	}
	if err == nil {
		err = s.related(c, who.ID, host)
	}
	if err == nil {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// subscribe has somebody be the subscriber of a host for a number of days, or no longer. It is
// the host's to say.
func (s *server) subscribe(c context.Context, ctx *fasthttp.RequestCtx, host, user string) error {
	who, err := s.needs(c, ctx, chat.Host)
	if err != nil {
		return err
	}
	if who.ID != host && who.Role != chat.Admin {
		return chat.ErrNotAllowed
	}
	until := time.Now()
	if ctx.IsPut() {
		const longest = 366
		days, err := number(ctx, "days", 30)
		if err != nil || days < 1 || days > longest {
			return &route.Error{Code: route.BadRequest, Text: "days is how long the subscription lasts: write 1 to 366"}
		}
		until = until.AddDate(0, 0, int(days))
	}
	if err := s.people.Subscribe(c, user, host, until); err != nil {
		return err
	}
	if err := s.related(c, user, host); err != nil {
		return err
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return nil
}

// hosting adds what changes streams.
func (s *server) hosting(r *route.Routes) {
	r.Add(http.MethodPost, "/api/streams", timed(s.startStream))
	r.Add(http.MethodPost, "/api/streams/", timed(s.change))
}
