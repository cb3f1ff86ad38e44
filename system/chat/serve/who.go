package serve

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/block/websocket"
	"loadstone/system/chat"
)

// storeTimeout bounds what a request waits for the users: a few syncs of a busy disk.
const storeTimeout = 5 * time.Second

// goOnPart is the part of a call of the database that several servers share, registry.Config.Timeout, for which is
// waited what a server goes on without: one second of three, in place of a millisecond. Where the database hangs, each request
// of who has signed up waits for so long, and nobody who joins should take it for lost.
const goOnPart = 3

// goingOn is a context for what a server that shares its database goes on without.
func (s *server) goingOn(c context.Context) (context.Context, context.CancelFunc) {
	if s.own != nil {
		return c, func() {}
	}
	return context.WithTimeout(c, s.cfg.Cluster.Registry.Timeout/goOnPart)
}

// timed is a handler with a deadline for what it asks others.
func timed(h func(c context.Context, ctx *fasthttp.RequestCtx) error) route.Handler {
	return func(ctx *fasthttp.RequestCtx) error {
		c, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		return failure(h(c, ctx))
	}
}

// bearer is the token that a request has in its header, or none.
func bearer(ctx *fasthttp.RequestCtx) string {
	token, _ := strings.CutPrefix(string(ctx.Request.Header.Peek("Authorization")), "Bearer ")
	return token
}

// who is whom an access token is of, as that user is now: a token says what was.
func (s *server) who(c context.Context, token string) (chat.User, error) {
	u, err := s.access.Check(token)
	if err != nil {
		return chat.User{}, err
	}
	return s.now(c, u)
}

// now is the user of a token that is good, as it is now. A token is good no longer than its session: with a file it fails closed.
// With a database it fails open, see goOnPart: while that does not answer, everybody who is in goes on until the token ends,
// Config.AccessTTL, but for those whose session is known to have ended. Who was
// signed out or disabled within endedEvery before it goes on, too, and who is meanwhile where others reach the database.
func (s *server) now(c context.Context, u chat.User) (chat.User, error) {
	if u.Role == chat.Guest {
		if !s.cfg.Guests {
			return chat.User{}, chat.ErrNoGuests
		}
		return u, nil
	}
	c, cancel := s.goingOn(c)
	defer cancel()
	known, err := s.people.InSession(c, u.ID, u.Session)
	switch {
	case errors.Is(err, chat.ErrAccounts) && s.own == nil && !s.ended.has(u.Session):
		return u, nil // what the token says, for as long as it is good: viewers go on without the database
	case errors.Is(err, chat.ErrNoUser) || err == nil && known.Disabled:
		err = chat.ErrToken
	}
	if err != nil {
		return chat.User{}, err
	}
	u.Name, u.Role = known.Name, known.Role
	return u, nil
}

// needs returns who a request is of, who has to have that role or more.
func (s *server) needs(c context.Context, ctx *fasthttp.RequestCtx, role chat.Role) (chat.User, error) {
	u, err := s.who(c, bearer(ctx))
	if err == nil && !u.Role.May(role) {
		err = chat.ErrNotAllowed
	}
	return u, err
}

// ours is an error for a request that a page of another origin had a browser make.
func (s *server) ours(ctx *fasthttp.RequestCtx) error {
	origin := string(ctx.Request.Header.Peek("Origin"))
	if websocket.SameOrigin(origin, string(ctx.Host())) || slices.Contains(s.cfg.Origins, origin) {
		return nil
	}
	return &route.Error{Code: codeOrigin}
}

// read reads a request's body, which has the form of an example.
func read(ctx *fasthttp.RequestCtx, form any, example string) error {
	if err := json.Unmarshal(ctx.PostBody(), form); err != nil {
		return &route.Error{Code: route.BadRequest, Text: "send " + example, Err: err}
	}
	return nil
}
