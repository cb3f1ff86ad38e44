package pgstore

import (
	"context"
	"sync/atomic"
	"time"
)

// health is what is known of the database's answering. Look-ups tell it when they
// are answered, so a busy store never asks anything on its account.
type health struct {
	last atomic.Int64 // when it last answered, in nanoseconds since the epoch
	down atomic.Bool  // set by Run alone
}

func (h *health) answered(now time.Time) {
	h.last.Store(now.UnixNano())
	// Read first: a store to a line that all cores share costs more than a load.
	if h.down.Load() {
		h.down.Store(false)
	}
}

// Ready reports whether the database answers, as far as look-ups and Run know. It
// asks nothing itself, so it may be called as often as anybody likes. It becomes
// false when nothing was answered for CheckInterval and Run then asks in vain, and
// true with the next answer. A look-up that fails while others succeed does not
// change it: an overloaded database is there. It is false as long as a lazy store's
// database is not open.
func (s *Store) Ready() bool {
	return !s.health.down.Load() && !s.closed.Load() && s.database.Load() != nil
}

// Run watches over readiness until ctx ends. When nothing was heard from the
// database for CheckInterval it asks, so at most once in that time, whatever
// asks Ready how often. A lazy store's database it opens first: it tries at once,
// and then every CheckInterval until the database is there and good.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.CheckInterval)
	defer ticker.Stop()
	opener := opener{store: s}
	for {
		if s.database.Load() == nil {
			opener.try(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if s.database.Load() != nil && now.UnixNano()-s.health.last.Load() >= int64(s.cfg.CheckInterval) {
				s.check(ctx)
			}
		}
	}
}

// check asks the database whether it answers.
func (s *Store) check(ctx context.Context) {
	err := s.database.Load().pool.Ping(ctx)
	switch {
	case err == nil:
		s.health.answered(time.Now())
	case ctx.Err() == nil:
		s.health.down.Store(true)
	}
}
