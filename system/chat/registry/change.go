package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"loadstone/system/chat"
)

// duplicate is the number of the error of a key that is there.
const duplicate = 1062

func isDuplicate(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == duplicate
}

// timed is a context for one call. Callers have none: a stream is started or not.
func (r *Registry) timed() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), r.cfg.Timeout)
}

// insert stores a stream, and has it known here.
func (r *Registry) insert(s chat.Stream) error {
	ctx, cancel := r.timed()
	defer cancel()
	if s.ID < 1 || s.ID > chat.MaxStream {
		return fmt.Errorf("stream %d: an id is from 1 to %d", s.ID, int64(chat.MaxStream))
	}
	var ended int64
	if !s.Live() {
		ended = s.Ended.UnixMilli()
	}
	if _, err := r.db.ExecContext(ctx, `INSERT INTO chat_streams (id, title, host, host_id, started, ended) VALUES (?, ?, ?, ?, ?, ?)`,
		s.ID, s.Title, s.Host, s.HostID, s.Started.UnixMilli(), ended); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(s)
	return nil
}

// failed is an error of the database.
func failed(err error) error { return fmt.Errorf("%w: %w", chat.ErrUnavailable, err) }

// AddStreams stores streams that there are not yet. One whose id there is stays as it is.
func (r *Registry) AddStreams(all []chat.Stream) error {
	for _, s := range all {
		if err := r.insert(s); err != nil && !isDuplicate(err) {
			return failed(err)
		}
	}
	return nil
}

// AddStream stores a stream under its id. The error wraps chat.ErrThere if there is one already.
func (r *Registry) AddStream(s chat.Stream) error {
	err := r.insert(s)
	if isDuplicate(err) {
		return fmt.Errorf("stream %d: %w", s.ID, chat.ErrThere)
	}
	return err
}

// StartStream stores a stream under the next id, which it returns with it, unless its host has
// one that is live: then the error is chat.ErrLive.
func (r *Registry) StartStream(s chat.Stream) (chat.Stream, error) {
	const tries = 20 // of servers that start one at the same time all but one try again
	for range tries {
		ctx, cancel := r.timed()
		var live int
		err := r.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(id), 0) + 1, COALESCE(SUM(live_host = ?), 0) FROM chat_streams`, s.HostID).Scan(&s.ID, &live)
		cancel()
		if err != nil {
			return s, failed(err)
		}
		if live > 0 {
			return s, chat.ErrLive
		}
		if err = r.insert(s); err == nil {
			return s, nil
		}
		if !isDuplicate(err) {
			return s, failed(err)
		}
	}
	return s, chat.ErrOverloaded
}

// EndStream ends a stream: nothing that is said in its room on this server after it has returned is
// accepted, and on others once they have looked.
func (r *Registry) EndStream(id int64, at time.Time) error {
	s, err := r.Stream(id)
	if err != nil || !s.Live() {
		return err
	}
	ctx, cancel := r.timed()
	defer cancel()
	if _, err := r.db.ExecContext(ctx, `UPDATE chat_streams SET ended = ? WHERE id = ? AND ended = 0`, at.UnixMilli(), id); err != nil {
		return failed(err)
	}
	s.Ended = at
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(s)
	return nil
}
