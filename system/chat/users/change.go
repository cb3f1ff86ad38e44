package users

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"loadstone/system/chat"
)

// SetProfile gives a user another name and picture.
func (s *Store) SetProfile(ctx context.Context, id, name, picture string) error {
	if err := errors.Join(chat.CheckName(name), chat.CheckPicture(picture)); err != nil {
		return err
	}
	return s.change(ctx, `UPDATE users SET name = ?, picture = ? WHERE id = ?`, name, picture, id)
}

// SetRole gives a user another role. Connections end, and are made again with it.
func (s *Store) SetRole(ctx context.Context, id string, role chat.Role) error {
	if !slices.Contains(chat.Roles(), role) {
		return chat.ErrNotAllowed
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := one(tx.ExecContext(ctx, `UPDATE users SET role = ? WHERE id = ?`, role, id)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO ended (session) SELECT mark FROM sessions WHERE user = ?`, id)
		return err
	})
}

// SetDisabled says whether the user may sign in. Who may not has no session any more.
func (s *Store) SetDisabled(ctx context.Context, id string, disabled bool) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := one(tx.ExecContext(ctx, `UPDATE users SET disabled = ? WHERE id = ?`, disabled, id)); err != nil || !disabled {
			return err
		}
		return endAll(ctx, tx, id)
	})
}

// SetPassword gives a user another password, for an operator, and ends all sessions. Who signs in elsewhere has none.
func (s *Store) SetPassword(ctx context.Context, id, password string) error {
	hash, err := s.passwords.Hash(ctx, password)
	if err != nil {
		return errors.Join(chat.ErrPassword, err)
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := one(tx.ExecContext(ctx, `UPDATE users SET hash = ?, vouched = 1 WHERE id = ? AND email IS NOT NULL`, hash, id)); err != nil {
			return err
		}
		return endAll(ctx, tx, id)
	})
}

func endAll(ctx context.Context, tx *sql.Tx, user string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user = ?`, user)
	return err
}

func (s *Store) change(ctx context.Context, statement string, args ...any) error {
	return failed(one(s.writes.ExecContext(ctx, statement, args...)))
}

// one is an error if a statement has not changed one user.
func one(done sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n != 1 {
		err = chat.ErrNoUser
	}
	return err
}

// Follow has a user follow a host. Twice is once.
func (s *Store) Follow(ctx context.Context, user, host string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		to, err := scan(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE id = ?`, host))
		if err != nil {
			return err
		}
		if user == host || !to.Role.May(chat.Host) {
			return chat.ErrNoUser
		}
		var followed, already int
		if err := tx.QueryRowContext(ctx, `SELECT count(*), count(CASE WHEN host = ? THEN 1 END) FROM follows WHERE user = ?`, host, user).Scan(&followed, &already); err != nil {
			return err
		}
		switch {
		case already > 0:
			return nil
		case followed >= maxFollowed:
			return chat.ErrTooMany
		}
		done, err := tx.ExecContext(ctx, `INSERT INTO follows (user, host, since) VALUES (?, ?, ?)`, user, host, s.cfg.Now().Unix())
		return count(ctx, tx, one(done, err), host, 1)
	})
}

// Unfollow is the inverse. Who does not follow does not after it either.
func (s *Store) Unfollow(ctx context.Context, user, host string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `DELETE FROM follows WHERE user = ? AND host = ?`, user, host)
		return count(ctx, tx, one(done, err), host, -1)
	})
}

// count changes a host's number of followers where one was added or removed.
func count(ctx context.Context, tx *sql.Tx, changed error, host string, by int) error {
	if errors.Is(changed, chat.ErrNoUser) { // it was so before
		return nil
	}
	if changed != nil {
		return changed
	}
	_, err := tx.ExecContext(ctx, `UPDATE users SET followers = followers + ? WHERE id = ?`, by, host)
	return err
}

// Subscribe has a user be a subscriber of a host until then; a time that has passed ends it.
func (s *Store) Subscribe(ctx context.Context, user, host string, until time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if _, err := scan(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE id = ?`, user)); err != nil {
			return err
		}
		if !until.After(s.cfg.Now()) {
			_, err := tx.ExecContext(ctx, `DELETE FROM subscriptions WHERE user = ? AND host = ?`, user, host)
			return err
		}
		_, err := tx.ExecContext(ctx, `REPLACE INTO subscriptions (user, host, until) VALUES (?, ?, ?)`, user, host, until.Unix())
		return err
	})
}

// Relation is what a user is to a host now.
func (s *Store) Relation(ctx context.Context, user, host string) (r chat.Relation, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM follows WHERE user = ? AND host = ?),
		EXISTS (SELECT 1 FROM subscriptions WHERE user = ? AND host = ? AND until > ?)`, user, host, user, host, s.cfg.Now().Unix()).Scan(&r.Follows, &r.Subscribes)
	return r, failed(err)
}
