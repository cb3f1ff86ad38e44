package pgstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/system/results"
)

// health is what is known of the database's answering. Look-ups tell it too when they
// are answered: a database that is too busy for one question more is there.
type health struct {
	last atomic.Int64 // when it last answered, in nanoseconds since the epoch
	said atomic.Int64 // when it last said what it holds; at first, when the store was made
	down atomic.Bool  // set by Run alone
}

func (h *health) says(now time.Time) {
	h.said.Store(now.UnixNano())
	h.answered(now)
}

func (h *health) answered(now time.Time) {
	h.last.Store(now.UnixNano())
	// Read first: a store to a line that all cores share costs more than a load.
	if h.down.Load() {
		h.down.Store(false)
	}
}

// Ready reports whether the database answers and holds a data set, as far as look-ups and
// Run know. It asks nothing itself, so it may be called as often as anybody likes. It
// becomes false when nothing was answered for CheckInterval and Run asks in vain, and
// true with the next answer. A look-up that fails while others succeed does not
// change it.
func (s *Store) Ready() bool {
	_, holds := s.State()
	return holds && !s.health.down.Load() && !s.closed.Load()
}

// State returns what the database said when it was last asked. It is false before that,
// and when it has said that it holds no data set whole: look-ups then are
// results.ErrUnavailable. While the database does not answer, what it said stays.
func (s *Store) State() (results.State, bool) {
	if db := s.database.Load(); db != nil && db.set != nil {
		return db.set.state, true
	}
	return results.State{}, false
}

// Run asks the database every CheckInterval what it holds, over a connection of its own,
// until ctx ends. A lazy store's database it opens first, as soon as it is there and good.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.CheckInterval)
	defer ticker.Stop()
	w := watcher{store: s, served: s.database.Load()}
	defer w.hangUp()
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil && !s.closed.Load() {
			w.refuse(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// refusalInterval is how often a reason that stays the same is told again.
const refusalInterval = time.Minute

// watcher asks the database what it holds.
type watcher struct {
	store  *Store
	conn   *pgx.Conn      // nil: none yet, or the last one broke
	served *database      // with the data set that was told last; nil for none
	reason *results.Error // of the last refusal
	told   time.Time
}

// look asks once, and opens the database if it is not open. That an open database does
// not answer is no error.
func (w *watcher) look(ctx context.Context) error {
	if w.store.database.Load() == nil {
		if err := w.store.open(ctx); err != nil {
			return err
		}
		w.tell()
		return nil
	}
	set, err := w.ask(ctx)
	switch now := time.Now(); {
	case err == nil:
		w.store.health.says(now)
		w.store.hold(set)
		w.tell()
	case errors.Is(err, results.ErrMissing):
		w.store.health.says(now)
		w.store.hold(nil)
	default:
		w.hangUp()
		if now.UnixNano()-w.store.health.last.Load() >= int64(w.store.cfg.CheckInterval) && ctx.Err() == nil {
			w.store.health.down.Store(true)
		}
		if errors.Is(err, results.ErrUnavailable) {
			return nil
		}
	}
	return err
}

// ask returns results.ErrMissing if the database holds no data set whole.
func (w *watcher) ask(ctx context.Context) (*dataSet, error) {
	timed, cancel := context.WithTimeout(ctx, w.store.cfg.QueryTimeout)
	defer cancel()
	if w.conn == nil {
		conn, err := connect(timed, w.store.cfg.URL)
		if err != nil {
			return nil, classify(ctx, err)
		}
		w.conn = conn
	}
	set, err := watchedDataSet(timed, w.conn, w.store.database.Load().set)
	if postgres.KindOf(err) == postgres.Failed {
		if version := checkVersion(timed, w.conn); version != nil {
			err = version // the tables are gone, or others
		}
	}
	return set, classify(ctx, err)
}

// hangUp ends the connection. It is not asked whether that went well.
func (w *watcher) hangUp() {
	if w.conn != nil {
		_ = w.conn.PgConn().Conn().Close()
		w.conn = nil
	}
}

// tell tells of another data set.
func (w *watcher) tell() {
	from, to := w.served, w.store.database.Load()
	if from != nil && from.set.state.Set == to.set.state.Set {
		return
	}
	w.served = to
	if switched := w.store.cfg.Events.Switched; switched != nil {
		var before dataset.Meta
		if from != nil {
			before = from.set.meta
		}
		switched(before, to.set.meta)
	}
}

// refuse tells why nothing is served.
func (w *watcher) refuse(err error) {
	refused := w.store.cfg.Events.Refused
	if refused == nil {
		return
	}
	var reason *results.Error // nil for a refusal by the database itself
	_ = errors.As(err, &reason)
	if now := time.Now(); w.told.IsZero() || reason != w.reason || now.Sub(w.told) >= refusalInterval {
		w.reason, w.told = reason, now
		refused(err)
	}
}
