// Package serve makes a running chat server of the system's parts. A command only fills a
// Config.
//
//	POST /api/guest                  {"name":...} → a token for somebody who has not signed up; with the
//	                                 header Authorization: Bearer TOKEN another one for the same
//	GET  /api/streams?page=          streams, those that are live first, 12 on a page
//	GET  /api/streams/{id}           one of them
//	GET  /api/streams/{id}/presence  who of those who have signed up is there, 100 at most
//	GET  /api/streams/{id}/messages?before=   what was said before an offset, or last
//	GET  /api/viewers?streams=1,2    server-sent events: how many watch each, whenever that changes
//	GET  /api/streams/{id}/room      its settings and what is pinned; for who moderates it also words and who is barred
//	GET  /api/streams/{id}/log?before=        for who moderates it: who did what, the newest first
//	GET  /api/streams/{id}/analysis  what its messages are, and the newest summary of them
//	GET  /api/streams/{id}/timeline  the same by the time of the show, in spans of ten seconds, and its highlights
//	GET  /api/streams/{id}/replay?video=            once it has ended: what was said from a time of the video on, in
//	GET  /api/streams/{id}/replay?offset=&video=    milliseconds, and what follows that, by what the answer before ends with
//	POST /api/streams/{id}/actions   for who moderates it: an action, see below, without type and id
//	GET  /ws?stream=&token=&epoch=&offset=    WebSocket: see below
//	GET  /app                        the page, see package web
//	GET  /openapi.json               who may take part, and the streams, as an OpenAPI 3.1 document
//	GET  /app/replay?stream=         the page on which one that has ended is watched again
//	GET  /healthz, /readyz           probes, see package route
//
// Who has signed up has an access token, for 15 minutes, and a cookie that has another one made:
//
//	GET    /api/ways                 {"guests":true,"provider":...,"pictures":[...]}: how one may come in, and
//	                                 the origins of which the page shows pictures
//	POST   /api/users                {"email":...,"password":...,"name":...}: sign up; the answer is the
//	                                 same where there is such an account
//	POST   /api/session              {"email":...,"password":...} → an access token, and the cookie
//	POST   /api/session/refresh      the cookie → another access token, and another cookie
//	DELETE /api/session              sign out
//	GET    /api/oidc                 to the provider of identities, and back at /api/oidc/callback
//	GET, POST /api/me                who one is; {"name":...,"picture":"https://..."}
//	GET    /api/hosts/{id}           a host, and what who asks is to it
//	PUT, DELETE /api/hosts/{id}/follow
//
// Authorization: Bearer TOKEN says who asks. In a stream, guests too:
//
//	POST /api/streams/{id}/enter     → a token for /ws, good for 30 seconds and for this stream only
//	POST /api/streams/{id}/leave     ends one's connections to it
//
// and for who has the role of a host:
//
//	POST /api/streams                {"title":...}: a stream starts, one at a time
//	POST /api/streams/{id}/end       one's own ends; an admin's may be anybody's
//	PUT, DELETE /api/hosts/{id}/subscribers/{user}?days=   somebody is one's subscriber
//
// And on the admin address, for who has its token:
//
//	POST /streams                    {"id":1,"title":...,"host":...}: a stream starts
//	POST /streams/{id}/end           it ends, and nothing more is accepted in its chat
//
// # WebSocket
//
// All is text, JSON, an object a message; contract/ has an example of each, and members may be
// added. The server begins:
//
//	{"type":"joined","epoch":"...","next":17,"recovered":false,"user":"...","name":"..."}
//	{"type":"messages","messages":[{"offset":17,"at":...,"sender":"...","name":"...","id":"...","text":"..."}]}
//	{"type":"skipped","count":312}          so many were left out here: the viewer was too slow
//	{"type":"ack","id":"...","offset":18}   it is durable
//	{"type":"error","id":"...","code":"...","message":"..."}
//
//	{"type":"error","id":"...","code":"slow_mode","message":"...","seconds":7}    so long one has to wait
//
// and of the room, after joined where something is set, and when it changes:
//
//	{"type":"settings","slow":10,"followers":false,"subscribers":false,"emotes":false,"unique":false,"delay":0}
//	{"type":"pinned","message":{...}}       or null for none
//	{"type":"deleted","offsets":[17]}       they are in no history any more, and a message on the wire that was
//	                                        deleted has "deleted":true in place of name and text
//	{"type":"reactions","counts":{"heart":12}}    in the last half second; a slow viewer goes without
//	{"type":"role","role":"moderator"}      what one is from now on
//	{"type":"held","messages":[...]}        for who moderates: what viewers see after the delay
//	{"type":"totals",...}, {"type":"summary",...}, {"type":"highlight",...}    what was found in what is said, see
//	                                        package analyst; at most five times a second, and a slow viewer goes without
//	{"type":"done","id":"..."}              an action is durable and in force
//
// The viewer says
//
//	{"type":"send","id":"...","text":"..."}
//	{"type":"react","kind":"heart"}         or laugh, clap, wow, sad, fire; it has no answer
//	{"type":"act","id":"...","action":"delete","offset":17}   see moderation.Kind for the others
//
// A message that mentions somebody, as @name, has "mentions":["user"]. Who is banned is disconnected with
// code 3003, and GET /ws is refused with 403.
//
// Who comes back names the epoch and the offset of the first message that it has not seen. If
// the epoch is still the log's, recovered is true, and nothing is left out but what a notice
// says. A message without an answer is to be sent again with the same id: it is not said twice.
package serve

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"loadstone/block/account"
	"loadstone/block/forwarded"
	"loadstone/block/httpserver"
	"loadstone/block/ratelimit"
	"loadstone/block/redact"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis/analyst"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/llm"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/moderation/desk"
	"loadstone/system/chat/oidc"
	"loadstone/system/chat/serve/cluster"
	"loadstone/system/chat/users"
)

// Config says what the chat server serves and where. Start from DefaultConfig.
type Config struct {
	service.Config

	// Data is the directory of the log, if it is this server's own.
	Data string
	// Cluster is where the log is that this server shares with others: if it names brokers.
	Cluster cluster.Config
	// Hub bounds the viewers. What it calls is set by Run.
	Hub hub.Config
	// Room bounds what is kept in memory of each room.
	Room chat.RoomConfig
	// TokenTTL is how long a guest's token is good. A connection made with it ends a tenth of
	// that before, a minute at most, and the viewer asks for another one.
	TokenTTL time.Duration
	// AccessTTL is how long the token of who has signed up is good.
	AccessTTL time.Duration
	// Guests says whether one may take part without having signed up.
	Guests bool
	// OIDC is where one may sign in beside here. Its Callback is of PublicURL.
	OIDC oidc.Config
	// PublicURL is where browsers reach this server, https://chat.example.com; only sign-ins
	// elsewhere need it.
	PublicURL string
	// PasswordCost is that of new hashes of passwords, see account.Cost.
	PasswordCost int
	// Compression says whether messages are compressed for viewers whose browsers offer it
	// (permessage-deflate): a frame once for all of them.
	Compression bool
	// MaxCounters and MaxCountersPerNetwork bound those who are sent counts of viewers.
	MaxCounters, MaxCountersPerNetwork int
	// Origins are the pages, beside those of this server's own host, that may connect:
	// https://example.com.
	Origins []string
	// Pictures are the origins, https://HOST, of which pictures of users are shown on the page: who
	// has a server there learns the addresses of those who see them.
	Pictures []string
	// MessagesPerUser and MessagesPerNetwork bound what is said in a second, and
	// GuestsPerNetwork new guests; five times as many at once. A network is an IPv4 address or
	// an IPv6 /64.
	MessagesPerUser, MessagesPerNetwork, GuestsPerNetwork int
	// MessagesPerRoom bounds what is said in a room in a second, by all together.
	MessagesPerRoom int
	// Summaries is the language model that summarises what is said, if there is one.
	Summaries llm.Config
	// Proxies are believed about whom a connection is for.
	Proxies forwarded.Proxies
}

// DefaultConfig returns a configuration for one machine, reachable from that machine only.
func DefaultConfig() Config {
	return Config{
		Config: service.DefaultConfig("chat"), Data: "chat-data", Cluster: cluster.DefaultConfig(), Hub: hub.DefaultConfig(), Room: chat.DefaultRoomConfig(),
		TokenTTL:  time.Hour,        // of a show, and a viewer gets another one in passing
		AccessTTL: 15 * time.Minute, // a token that was copied is good as long, unless its session ends
		Guests:    true, Compression: true, PasswordCost: account.Cost, OIDC: oidc.Config{Name: "your provider"},
		MaxCounters: 2000, MaxCountersPerNetwork: 200, // lists that are open; a goroutine and 10 KiB each
		Summaries:       llm.Config{Timeout: llm.DefaultTimeout},
		MessagesPerUser: 1, // more than anybody reads
		// The users behind one router: a tenth of Hub.MaxPerAddress write, and all come within a minute.
		MessagesPerNetwork: 100, GuestsPerNetwork: 20,
		MessagesPerRoom: 1000, // more than a viewer can be shown
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	errs = append(errs, c.validateLog())
	if c.TokenTTL < time.Minute {
		errs = append(errs, fmt.Errorf("tokens are good for %v: write at least 1m", c.TokenTTL))
	}
	for what, n := range map[string]int{"messages of a user": c.MessagesPerUser, "messages of a network": c.MessagesPerNetwork, "messages of a room": c.MessagesPerRoom, "new guests of a network": c.GuestsPerNetwork} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%d %s a second: write 1 or more", n, what))
		}
	}
	return errors.Join(c.Config.Validate(), c.Summaries.Validate(), c.Room.Validate(), c.Hub.Validate(), c.validateAccounts(), errors.Join(errs...))
}

// validateAccounts returns what is wrong with what is said of accounts.
func (c Config) validateAccounts() error {
	var errs []error
	if c.AccessTTL < time.Minute {
		errs = append(errs, fmt.Errorf("access tokens are good for %v: write at least 1m", c.AccessTTL))
	}
	for _, origin := range c.Origins {
		if !isOrigin(origin) {
			errs = append(errs, fmt.Errorf("origin is %q: write SCHEME://HOST, such as https://example.com", origin))
		}
	}
	for _, origin := range c.Pictures {
		if !isOrigin(origin) || !strings.HasPrefix(origin, "https://") || strings.ContainsAny(origin, ";, '") {
			errs = append(errs, fmt.Errorf("pictures are of %q: write https://HOST, such as https://pictures.example.com", origin))
		}
	}
	_, err := account.NewPasswords(c.PasswordCost) // or the users cannot be opened, for which a start might wait
	provider := c.elsewhere()
	return errors.Join(err, provider.Validate(), errors.Join(errs...))
}

// validateLog returns what is wrong with where the log is.
func (c Config) validateLog() error {
	switch {
	case c.shares() && c.OIDC.On():
		return errors.Join(c.Cluster.Validate(), errors.New("a server of their own has the accounts where the log is shared, and signs in elsewhere: leave the provider out"))
	case c.shares():
		return c.Cluster.Validate()
	case c.Cluster.Broadcast.Address != "" || c.Cluster.Registry.Address != "":
		return errors.New("a Redis and a database are for a log that is shared: write also the brokers of Kafka")
	case c.Data == "":
		return errors.New("the directory of the log has no name: write one")
	}
	return nil
}

// elsewhere is OIDC with its callback.
func (c Config) elsewhere() oidc.Config {
	o := c.OIDC
	o.Callback = strings.TrimSuffix(c.PublicURL, "/") + callbackPath
	return o
}

// newServer has no parts yet.
func newServer(cfg Config, logger *slog.Logger) *server {
	return &server{cfg: cfg, users: ratelimit.New(maxLimited), networks: ratelimit.New(maxLimited), guests: ratelimit.New(maxLimited), tries: ratelimit.New(maxLimited),
		logger: logger, failures: route.NewErrorLog(logger, "something could not be done"), counters: newCounters(&cfg), presences: presences{rooms: map[int64]madeAt{}},
		rooms: ratelimit.New(maxLimited), actions: ratelimit.New(maxLimited), reactions: ratelimit.New(maxLimited)}
}

// UsersFile is the file of users in a directory of a log.
func UsersFile(data string) string { return filepath.Join(data, "users.db") }

// Run serves until ctx ends and then stops as package service says: nobody joins any more,
// then the viewers are told, then the log is closed. It returns nil if that lost nothing.
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	asked := cfg.Hub.MaxConns
	cfg, err := cfg.fit(descriptors())
	if err != nil {
		return err
	}
	if cfg.Hub.MaxConns < asked {
		logger.Warn("fewer viewers: this process may not open more files (ulimit -n)", "asked", asked, "max_viewers", cfg.Hub.MaxConns)
	}
	s := newServer(cfg, logger)
	// What comes here may be a viewer, and the hub counts it then.
	seed := maphash.MakeSeed()
	cfg.PerClient = &httpserver.PerClient{MaxConns: cfg.Hub.MaxPerAddress, Client: func(peer netip.Addr) (name uint64, others bool) {
		return maphash.Comparable(seed, forwarded.Network(peer)), cfg.Proxies.Trusts(peer)
	}}
	cfg.Hub.Open, cfg.Hub.Receive, cfg.Hub.Gaps = s.open, s.receive, cfg.shares()
	return service.Run(ctx, cfg.Config, logger, func(ctx context.Context, parts *service.Service) (service.Handler, error) {
		cfg.Hub.Registerer = parts.Registry
		parts.Logger.Info("configuration", "listen", cfg.Listen, "admin_listen", cfg.AdminListen, "data", cfg.Data, "kafka", cfg.Cluster.Topics.Brokers, "redis", cfg.Cluster.Broadcast.Where(), "database", redact.Address(cfg.Cluster.Registry.Address), "loops", cfg.Hub.Loops, "tick", cfg.Hub.Tick,
			"max_viewers", cfg.Hub.MaxConns, "max_viewers_per_address", cfg.Hub.MaxPerAddress, "max_viewers_per_room", cfg.Hub.MaxPerRoom,
			"room_bytes", cfg.Room.Bytes, "history", cfg.Room.Resume, "token_ttl", cfg.TokenTTL, "access_ttl", cfg.AccessTTL, "guests", cfg.Guests, "oidc_issuer", cfg.OIDC.Issuer, "origins", cfg.Origins, "proxies", cfg.Proxies.String())
		if err := s.openStore(ctx, parts); err != nil {
			return service.Handler{}, err
		}
		var err error
		if s.hub, err = hub.New(cfg.Hub); err != nil {
			return service.Handler{}, fmt.Errorf("make the hub: %w", err)
		}
		parts.Add(service.Component{Name: "hub", Run: s.hub.Run, Close: s.hub.Close})
		s.tokens, s.access = chat.NewTokens(s.log.Key(), cfg.TokenTTL), chat.NewTokens(s.log.Key(), cfg.AccessTTL)
		if err := s.openUsers(ctx, parts); err != nil {
			return service.Handler{}, err
		}
		if s.cfg.OIDC.On() {
			s.provider = oidc.New(s.cfg.elsewhere(), s.log.Key())
		}
		if err := s.openDesk(parts); err != nil {
			return service.Handler{}, err
		}
		if s.own != nil {
			s.openAnalyst(parts)
		} else {
			s.countLag(parts.Registry)
		}
		s.ready = parts.Ready
		parts.Logger.Info("log opened", "epoch", s.log.Epoch().String(), "streams", len(s.log.Streams()))
		s.administer(parts)
		routes := s.routes(parts) //nolint:contextcheck // a request's context is its own, and not that of the start
		return service.Handler{Handle: routes.Handle, BadRequest: routes.BadRequest}, nil
	})
}

// openUsers opens the users, in the log's directory or the database that several servers share.
func (s *server) openUsers(ctx context.Context, parts *service.Service) error {
	s.outcomes = newOutcomes(parts.Registry)
	ended, err := s.openPeople(ctx)
	if err != nil {
		return err
	}
	people := service.Component{Name: "users", Close: s.people.Close}
	if !s.accountsElsewhere() {
		people.Run = func(ctx context.Context) error { s.people.Run(ctx, s.failed); return nil }
	}
	parts.Add(people)
	if s.hub != nil {
		parts.Add(service.Component{Name: "sessions", Run: func(ctx context.Context) error { s.endSessions(ctx, ended); return nil }})
	}
	return nil
}

// openPeople returns the number of the session that ended last. It waits for a database that servers share.
func (s *server) openPeople(ctx context.Context) (ended int64, err error) {
	c, database := users.DefaultConfig(UsersFile(s.cfg.Data)), s.cfg.Cluster.Registry
	c.PasswordCost, database.Failed = s.cfg.PasswordCost, s.failed
	open := func(ctx context.Context) (err error) {
		if database.Address != "" {
			if c.Database, err = database.Connect(); err != nil { // the users close it where they cannot be opened
				return err
			}
		}
		if s.people, err = users.Open(ctx, c); err != nil {
			return err
		}
		var before []string
		if before, ended, err = s.people.Ended(ctx, 0); err != nil {
			return errors.Join(err, s.people.Close())
		}
		s.ended.add(before, s.cfg.AccessTTL) // one may have signed out while no server was here
		return nil
	}
	if database.Address != "" {
		err = database.Await(ctx, open)
	} else {
		err = open(ctx)
	}
	return ended, err
}

// otherFiles are the descriptors of all but connections: the log has a thousand tables open at most.
const otherFiles = 2000

// descriptors is how many files the process may have open. Go has raised that as far as it may.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64 // there is no such limit here
	}
	return limit.Cur
}

// fit lowers the bounds of connections to what the process may have open: a log that cannot open a file ends it.
func (c Config) fit(descriptors uint64) (Config, error) {
	left := int(min(descriptors, math.MaxInt32)) - otherFiles
	if left < 2 {
		return c, fmt.Errorf("this process may have %d files open: allow it %d or more (ulimit -n)", descriptors, otherFiles+2)
	}
	c.MaxConns = min(c.MaxConns, left/2)
	c.Hub.MaxConns = min(c.Hub.MaxConns, left-c.MaxConns)
	return c, nil
}

// server is the parts together.
type server struct {
	cfg    Config
	log    store
	own    *logstore.Log // log, if it is this server's alone
	shared *cluster.Log  // log, if it is not
	hub    *hub.Hub
	ready  func() bool
	logger *slog.Logger
	// failures are of this server, see failed.
	failures *route.ErrorLog

	tokens, access *chat.Tokens // of guests, and of who has signed up
	people         *users.Store
	provider       *oidc.Client // nil if there is none
	outcomes       outcomes
	counters       *counters
	presences      presences
	ended          endings
	desk           *desk.Desk
	analyst        *analyst.Analyst // nil where the log is shared
	results        results          // of the analysis, where the log is shared

	users, networks, guests, tries, rooms, actions, reactions *ratelimit.Limiter // fail open, see package ratelimit
}

// maxLimited bounds those whose rate is remembered, some 10 MB.
const maxLimited = 50_000

// within reports whether one more is within so many a second.
func within(l *ratelimit.Limiter, key string, rate int) bool {
	return l.Take(key, 5*rate, time.Second/time.Duration(rate))
}

// open returns a room with the end of its log.
func (s *server) open(_ context.Context, id int64) (*chat.Room, error) {
	const all = 1 << 20 // more messages than a room has bytes for
	shown := s.desk.Room(id).Shown()
	found, next, err := s.log.Before(id, shown, chat.Limit{Messages: all, Bytes: s.cfg.Room.Bytes})
	if err != nil {
		return nil, err
	}
	first := min(next, shown)
	if len(found) > 0 {
		first = found[0].Offset
	}
	room := chat.NewRoom(s.cfg.Room, first)
	for _, m := range found {
		room.Append(m.Offset, m.Bytes)
	}
	return room, nil
}
