package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/web"
)

// Codes of answers that are no chat.Error's.
const (
	codeOrigin  route.Code = "bad_origin"
	codeUpgrade route.Code = "no_upgrade"
)

var answers = table()

func table() route.Table {
	t := route.Table{
		route.Internal:           {Status: fasthttp.StatusInternalServerError, Text: "something went wrong here"},
		route.NoSuchPath:         {Status: fasthttp.StatusNotFound, Text: "there is nothing at this path"},
		route.MethodNotAllowed:   {Status: fasthttp.StatusMethodNotAllowed, Text: "this path does not take this method; Allow says which it takes"},
		route.NotReady:           {Status: fasthttp.StatusServiceUnavailable, Text: "the server is not ready", RetryAfter: time.Second},
		route.TooManyConnections: {Status: fasthttp.StatusServiceUnavailable, Text: "too many connections are open", RetryAfter: time.Second},
		route.BadRequest:         {Status: fasthttp.StatusBadRequest, Text: "this is no request that can be read"},
		codeOrigin:               {Status: fasthttp.StatusForbidden, Text: "pages of this origin may not connect"},
		codeLive:                 {Status: fasthttp.StatusConflict, Text: "this stream is live: its chat is replayed once it has ended"},
		codeUpgrade:              {Status: fasthttp.StatusUpgradeRequired},
	}
	for e, status := range map[*chat.Error]int{
		chat.ErrNoStream: fasthttp.StatusNotFound, chat.ErrName: fasthttp.StatusBadRequest, chat.ErrToken: fasthttp.StatusUnauthorized,
		chat.ErrTooMany: fasthttp.StatusTooManyRequests, chat.ErrFull: fasthttp.StatusServiceUnavailable, chat.ErrUnavailable: fasthttp.StatusServiceUnavailable,
		chat.ErrEmail: fasthttp.StatusBadRequest, chat.ErrPassword: fasthttp.StatusBadRequest, chat.ErrPicture: fasthttp.StatusBadRequest, chat.ErrTitle: fasthttp.StatusBadRequest,
		chat.ErrSignIn: fasthttp.StatusUnauthorized, chat.ErrNotAllowed: fasthttp.StatusForbidden, chat.ErrNoGuests: fasthttp.StatusForbidden,
		chat.ErrNoUser: fasthttp.StatusNotFound, chat.ErrNotHere: fasthttp.StatusNotFound, chat.ErrLive: fasthttp.StatusConflict,
		chat.ErrAccounts: fasthttp.StatusServiceUnavailable, chat.ErrProvider: fasthttp.StatusServiceUnavailable,
	} {
		a := route.Answer{Status: status, Text: e.Message}
		if status == fasthttp.StatusTooManyRequests || status == fasthttp.StatusServiceUnavailable {
			a.RetryAfter = time.Second
		}
		t[route.Code(e.Code)] = a
	}
	for e, status := range moderationAnswers() {
		t[route.Code(e.Code)] = route.Answer{Status: status, Text: e.Message}
	}
	return t
}

// failure is an error for an answer.
func failure(err error) error {
	if e, ok := errors.AsType[*chat.Error](err); ok {
		return &route.Error{Code: route.Code(e.Code), Err: err}
	}
	return err
}

// failed logs what is no answer to a request, but a fault here: what cannot be read or written, and
// what nobody knows.
func (s *server) failed(err error) {
	if known, ok := errors.AsType[*chat.Error](err); !ok || known == chat.ErrAccounts || known == chat.ErrUnavailable {
		s.failures.Log("error", err)
	}
}

func (s *server) routes(parts *service.Service) *route.Routes {
	r := route.New(route.Config{Table: answers, Ready: parts.Ready, Logger: parts.Logger, Registerer: parts.Registry, Failed: s.failed})
	r.Add(http.MethodGet, "/ws", s.socket)
	r.Add(http.MethodPost, "/api/guest", s.guest)
	r.Add(http.MethodGet, "/api/viewers", s.viewers)
	r.Add(http.MethodGet, "/openapi.json", document)
	s.accounts(r)
	s.hosting(r)
	page := web.New(s.cfg.Pictures)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r.Add(method, "/api/streams", s.list)
		r.Add(method, "/api/streams/", timed(s.detail))
		r.Add(method, web.Path, page)
		r.Add(method, web.ReplayPath, web.HandleReplay)
	}
	return r
}

// guest makes a token.
func (s *server) guest(ctx *fasthttp.RequestCtx) error {
	if !s.cfg.Guests {
		return failure(chat.ErrNoGuests)
	}
	var user chat.User
	var err error
	if old := bearer(ctx); old != "" {
		if user, err = s.tokens.Check(old); err == nil && user.Role != chat.Guest {
			err = chat.ErrToken // who has signed up has a session to ask for another one
		}
	} else {
		var request struct {
			Name string `json:"name"`
		}
		if err := read(ctx, &request, `{"name":"..."}`); err != nil {
			return err
		}
		if user, err = chat.NewGuest(request.Name); err == nil && !within(s.guests, s.network(ctx).String(), s.cfg.GuestsPerNetwork) {
			err = chat.ErrTooMany
		}
	}
	if err != nil {
		return failure(err)
	}
	token, err := s.tokens.Sign(&user)
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusCreated, map[string]any{"token": token, "user": user.ID, "name": user.Name, "expires": user.Until.UTC()})
}

func answer(ctx *fasthttp.RequestCtx, status int, body any) error {
	text, err := json.Marshal(body)
	if err == nil {
		route.JSON(ctx, status, text)
	}
	return err
}

// pageStreams are on a page of the list.
const pageStreams = 12

// shown is a stream with how many watch it.
type shown struct {
	chat.Stream

	Viewers int `json:"viewers"`
}

func (s *server) list(ctx *fasthttp.RequestCtx) error {
	page, err := number(ctx, "page", 1)
	if err != nil {
		return err
	}
	all := s.log.Streams()
	pages := max(1, (len(all)+pageStreams-1)/pageStreams)
	if page < 1 || page > uint64(pages) {
		return &route.Error{Code: route.BadRequest, Text: fmt.Sprintf("page is %d: write 1 to %d", page, pages)}
	}
	all = all[(page-1)*pageStreams:]
	streams := []shown{}
	for _, stream := range all[:min(len(all), pageStreams)] {
		streams = append(streams, shown{stream, s.hub.Viewers(stream.ID)})
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"streams": streams, "page": page, "pages": pages})
}

// number reads a parameter.
func number(ctx *fasthttp.RequestCtx, name string, missing uint64) (uint64, error) {
	text := string(ctx.QueryArgs().Peek(name))
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &route.Error{Code: route.BadRequest, Text: fmt.Sprintf("%s is %q: write a number", name, text), Err: err}
	}
	return n, nil
}

// stream finds the stream of an id.
func (s *server) stream(text string) (chat.Stream, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return chat.Stream{}, chat.ErrNoStream
	}
	return s.log.Stream(id)
}

func (s *server) detail(c context.Context, ctx *fasthttp.RequestCtx) error {
	id, part, _ := strings.Cut(strings.TrimPrefix(string(ctx.URI().PathOriginal()), "/api/streams/"), "/")
	stream, err := s.stream(id)
	switch {
	case err != nil:
		return failure(err)
	case part == "messages":
		return s.messages(ctx, stream.ID)
	case part == "presence":
		return s.presence(c, ctx, stream.ID)
	case part == "room":
		return s.showRoom(c, ctx, &stream)
	case part == "log":
		return s.showLog(c, ctx, &stream)
	case part == "analysis":
		return s.showAnalysis(c, ctx, &stream)
	case part == "timeline":
		return s.showTimeline(ctx, &stream)
	case part == "replay":
		return s.replay(ctx, &stream)
	case part != "":
		return &route.Error{Code: route.NoSuchPath}
	}
	return answer(ctx, fasthttp.StatusOK, shown{stream, s.hub.Viewers(stream.ID)})
}

// pageMessages bounds a page of messages.
var pageMessages = chat.Limit{Messages: 50, Bytes: 64 << 10}

func (s *server) messages(ctx *fasthttp.RequestCtx, id int64) error {
	before, err := number(ctx, "before", 1<<63)
	if err != nil {
		return err
	}
	shown := s.desk.Room(id).Shown()
	found, next, err := s.log.Before(id, min(before, shown), pageMessages)
	if err != nil {
		return failure(err)
	}
	messages := []json.RawMessage{}
	for _, m := range found {
		messages = append(messages, m.Bytes)
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"epoch": s.log.Epoch().String(), "messages": messages, "next": min(next, shown)})
}

// administer adds what is for the operator.
func (s *server) administer(parts *service.Service) {
	done := func(w http.ResponseWriter, err error) {
		switch {
		case errors.Is(err, chat.ErrNoStream):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, chat.ErrThere):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
	parts.HandleAdmin("POST /streams", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const longest = 4 << 10
		var stream chat.Stream
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, longest)).Decode(&stream)
		if err == nil {
			err = chat.CheckTitle(stream.Title)
		}
		if err == nil {
			stream.Started, stream.Ended = time.Now().UTC(), time.Time{}
			err = s.log.AddStream(stream)
		}
		done(w, err)
	}))
	parts.HandleAdmin("POST /streams/{id}/end", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream, err := s.stream(r.PathValue("id"))
		if err == nil {
			err = s.log.EndStream(stream.ID, s.log.Time(stream.ID).UTC())
		}
		done(w, err)
	}))
}
