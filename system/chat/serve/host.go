package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/moderation"
	"loadstone/system/chat/moderation/desk"
)

// actionsPerUser and reactionsPerUser bound what one does in a second, five times as many at once.
const actionsPerUser, reactionsPerUser = 5, 5

// moderationAnswers are the statuses of what hosts and moderators are refused, and of who is
// barred.
func moderationAnswers() map[*chat.Error]int {
	return map[*chat.Error]int{
		moderation.ErrBanned: fasthttp.StatusForbidden, moderation.ErrTimedOut: fasthttp.StatusForbidden, moderation.ErrRole: fasthttp.StatusForbidden, moderation.ErrAction: fasthttp.StatusBadRequest,
		moderation.ErrNoMessage: fasthttp.StatusNotFound, moderation.ErrMany: fasthttp.StatusConflict,
	}
}

// openDesk makes the desk, with what is stored.
func (s *server) openDesk(parts *service.Service) (err error) {
	c := desk.DefaultConfig()
	c.Log, c.Viewers, c.Registerer = s.history(), audience{s.hub, s}, parts.Registry
	c.Hosts = func(stream int64, user string) bool {
		of, err := s.log.Stream(stream)
		return err == nil && of.HostID == user
	}
	if s.desk, err = desk.New(c); err == nil {
		parts.Add(service.Component{Name: "desk", Run: s.desk.Run})
	}
	return err
}

// history is the log as a desk reads it.
type history struct{ *logstore.Log }

func (h history) After(stream int64, from uint64, count int) ([]chat.Encoded, error) {
	return h.Read(stream, from, count)
}

func (h history) Before(stream int64, before uint64, count int) ([]chat.Encoded, error) {
	found, _, err := h.Log.Before(stream, before, chat.Limit{Messages: count, Bytes: count * chat.MaxMessage})
	return found, err
}

// shared is a log of several servers as a desk reads it: there are no hosts, and so no rules.
type shared struct{ store }

func (s *server) history() desk.Log {
	if s.own != nil {
		return history{s.own}
	}
	return shared{s.log}
}

func (shared) Alter(*chat.Alteration) ([]byte, error)             { return nil, chat.ErrNotHere }
func (shared) EachRecord(func(int64, string, []byte) error) error { return nil }
func (shared) After(int64, uint64, int) ([]chat.Encoded, error)   { return nil, chat.ErrNotHere }
func (shared) Before(int64, uint64, int) (found []chat.Encoded, err error) {
	return nil, chat.ErrNotHere
}

// audience is the hub as a desk tells it.
type audience struct {
	*hub.Hub
	server *server
}

func (a audience) Count(room int64) int { return a.Viewers(room) }

func (a audience) Tell(room int64, message []byte, to func(user string, own moderation.Role) bool) {
	a.Visit(room, func(c *hub.Conn) {
		if said, ok := c.Session.(*session); ok && to(said.user.ID, said.own) {
			c.Tell(message)
		}
	})
}

func (a audience) Remove(room int64, user string, why error) {
	a.Visit(room, func(c *hub.Conn) {
		if sessionOf(c, user) != nil {
			c.Close(hub.Forbidden, why.Error())
		}
	})
}

// ownRole is what somebody is in a stream without having been appointed.
func ownRole(user *chat.User, stream *chat.Stream) moderation.Role {
	if user.Hosts(stream) {
		return moderation.Host
	}
	return moderation.Viewer
}

func (v *session) speaker() *moderation.Speaker {
	who := &moderation.Speaker{User: v.user.ID, Role: v.own}
	if r := v.relation.Load(); r != nil {
		who.Follows, who.Subscribed = r.Follows, r.Subscribes
	}
	return who
}

func (v *session) role() moderation.Role { return v.room.Role(v.user.ID, v.own) }

// welcome is what a viewer is told of the room. Who was banned after it was let in goes again.
func (v *session) welcome(next uint64, recovered bool) ([][]byte, error) {
	if err := v.room.Enter(v.speaker()); err != nil {
		return nil, err
	}
	return v.room.Welcome(recovered, next), nil
}

// request is told what a viewer asks for that is no message. It runs on the viewer's event loop.
func (s *server) request(c *hub.Conn, said *session, payload []byte) {
	r, err := moderation.ParseRequest(payload)
	switch {
	case err != nil:
	case r.Act == nil:
		err = s.react(said, c.Room(), r.React)
	default:
		err = s.start(said.user, said.own, c.Room(), r.Act, func(err error) {
			if err != nil {
				c.Tell(refusal(r.ID, err))
				return
			}
			c.Tell(moderation.AppendDone(nil, r.ID))
		})
	}
	if err != nil {
		c.Tell(refusal(r.ID, err))
	}
}

func (s *server) react(said *session, room int64, kind string) error {
	if !within(s.reactions, said.user.ID, reactionsPerUser) {
		return chat.ErrTooMany
	}
	if err := said.room.React(time.Now(), said.speaker()); err != nil {
		return err
	}
	return s.desk.Reactions.Add(room, kind)
}

// start has an action done that somebody asks for.
func (s *server) start(user chat.User, own moderation.Role, room int64, a *moderation.Action, done func(error)) error {
	if !within(s.actions, user.ID, actionsPerUser) {
		return chat.ErrTooMany
	}
	return s.desk.Start(&desk.Task{Stream: room, By: moderation.Actor{User: user.ID, Name: user.Name, Role: own}, Action: *a, Done: done})
}

// relate finds out what a viewer is to the host of a stream.
func (s *server) relate(said *session, host string) error {
	if said.user.Role == chat.Guest || host == "" {
		return nil
	}
	c, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	r, err := s.relation(c, said.user.ID, host)
	said.relation.Store(&r)
	return err
}

// relation is what a user is to a host: nothing where several servers have no database to ask, and no rules either.
func (s *server) relation(c context.Context, user, host string) (chat.Relation, error) {
	c, cancel := s.goingOn(c)
	defer cancel()
	r, err := s.people.Relation(c, user, host)
	if errors.Is(err, chat.ErrAccounts) && s.own == nil {
		err = nil
	}
	return r, err
}

// related has the connections of a user know what the user is to a host now. When it returns they do, so
// that who has just followed may speak; where an event loop is far behind they will.
func (s *server) related(c context.Context, user, host string) error {
	if s.hub == nil {
		return nil
	}
	stream, live := s.log.LiveStream(host)
	if !live {
		return nil
	}
	r, err := s.people.Relation(c, user, host)
	if err != nil {
		return err
	}
	know := func(conn *hub.Conn) {
		if said := sessionOf(conn, user); said != nil {
			said.relation.Store(&r)
		}
	}
	if errors.Is(s.hub.Each(c, stream, know), chat.ErrTooMany) {
		s.hub.Visit(stream, know)
	}
	return nil
}

// moderator is who asks for something that is for who moderates a stream.
func (s *server) moderator(c context.Context, ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	user, err := s.who(c, bearer(ctx))
	if err == nil && s.desk.Room(stream.ID).Role(user.ID, ownRole(&user, stream)) == moderation.Viewer {
		err = moderation.ErrRole
	}
	return err
}

// action answers POST /api/streams/{id}/actions.
func (s *server) action(c context.Context, ctx *fasthttp.RequestCtx, who chat.User, stream chat.Stream) error {
	a, err := moderation.ParseAction(ctx.Request.Body())
	if err != nil {
		return &route.Error{Code: route.Code(moderation.ErrAction.Code), Text: err.Error(), Err: err}
	}
	done := make(chan error, 1)
	if err := s.start(who, ownRole(&who, &stream), stream.ID, &a, func(err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-c.Done():
		err = fmt.Errorf("%w: it may be done later", chat.ErrUnavailable)
	}
	if err == nil {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
	}
	return err
}

// showRoom answers GET /api/streams/{id}/room.
func (s *server) showRoom(c context.Context, ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	room := s.desk.Room(stream.ID)
	settings := room.Settings()
	form := map[string]any{"settings": &settings, "pinned": json.RawMessage(room.Pinned())}
	if room.Pinned() == nil {
		form["pinned"] = nil
	}
	if bearer(ctx) != "" && s.moderator(c, ctx, stream) == nil {
		form["barred"] = room.Barring(time.Now())
	} else {
		settings.Words = nil
	}
	return answer(ctx, fasthttp.StatusOK, form)
}

// pageEntries are on a page of the log of who did what.
const pageEntries = 50

// showLog answers GET /api/streams/{id}/log.
func (s *server) showLog(c context.Context, ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	before, err := number(ctx, "before", 1<<63)
	if err != nil {
		return err
	}
	if err := s.moderator(c, ctx, stream); err != nil {
		return err
	}
	if s.own == nil {
		return chat.ErrNotHere
	}
	found, err := s.own.Entries(stream.ID, before, pageEntries)
	if err != nil {
		return failure(err)
	}
	entries := make([]json.RawMessage, len(found))
	for i, e := range found {
		entries[i] = e.Bytes
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"entries": entries})
}
