package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/hub"
)

// endedEvery is how often it is looked which sessions have ended, by this process or another:
// then their connections end. Requests and what joins ask themselves.
const endedEvery = 500 * time.Millisecond

// endings remembers sessions that have ended, for when their tokens alone would let them in: each for a time, unless
// mostEndings have ended since. Sessions whose users have had another role since are among them.
type endings struct {
	mu         sync.Mutex
	young, old map[string]bool
	since      time.Time // of young
}

// mostEndings is as many as the users keep, see users.Store.Ended.
const mostEndings = 10_000

// add notes sessions, to be remembered for so long.
func (e *endings) add(sessions []string, long time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, session := range sessions {
		if e.young == nil || len(e.young) == mostEndings || time.Since(e.since) > long {
			e.young, e.old, e.since = map[string]bool{}, e.young, time.Now()
		}
		e.young[session] = true
	}
}

func (e *endings) has(session string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.young[session] || e.old[session]
}

// endSessions ends the connections of sessions that end after a number, until ctx ends.
func (s *server) endSessions(ctx context.Context, after int64) {
	tick := time.NewTicker(endedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ended, last, err := s.people.Ended(ctx, after)
		if err != nil && ctx.Err() == nil {
			s.failed(err)
		}
		s.ended.add(ended, s.cfg.AccessTTL)
		s.disconnect(ended)
		after = last
	}
}

// disconnect ends the connections of sessions: who has another one comes back with it.
func (s *server) disconnect(ended []string) {
	if len(ended) == 0 {
		return
	}
	gone := map[string]bool{}
	for _, session := range ended {
		gone[session] = true
	}
	delete(gone, "") // guests have none
	s.hub.VisitAll(func(c *hub.Conn) {
		if of, ok := c.Session.(*session); ok && gone[of.user.Session] {
			c.Close(hub.Expired, "your session has ended: sign in again")
		}
	})
}

// stillIn ends the connections of one who has just joined, if the session ended meanwhile.
func (s *server) stillIn(ctx context.Context, of *session) {
	if of.user.Role == chat.Guest {
		return
	}
	if _, err := s.now(ctx, of.user); errors.Is(err, chat.ErrToken) {
		s.disconnect([]string{of.user.Session})
	}
}
