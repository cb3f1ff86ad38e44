package users

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"loadstone/block/pause"
	"loadstone/system/chat"
)

// ErrReused is that a refresh token was shown that was good before, or has another secret, and
// its family is ended. It wraps chat.ErrToken.
var ErrReused = fmt.Errorf("%w: a refresh token was used twice", chat.ErrToken)

// Session is what a browser keeps of one.
type Session struct {
	// Refresh is the refresh token.
	Refresh string
	// Until is when it ends if it is not used.
	Until time.Time
}

// secretHash is what is kept of a secret, which is random: no salt is needed.
func secretHash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// mark names a session in access tokens. It is no secret: nobody ends or renews a session with it.
func mark(id string) string {
	const enough = 16
	return base64.RawURLEncoding.EncodeToString(secretHash(id)[:enough])
}

// until is when a session ends that is used now.
func (s *Store) until(began time.Time) time.Time {
	idle, longest := s.cfg.Now().Add(s.cfg.Idle), began.Add(s.cfg.Longest)
	if longest.Before(idle) {
		return longest
	}
	return idle
}

// nextSecret is what follows a secret.
func nextSecret(salt []byte, secret string) string {
	m := hmac.New(sha256.New, salt)
	m.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// lost is for how long the token before is answered once more.
const lost = 20 * time.Second

// Begin makes a session for a user as it was read when it signed in: chat.ErrSignIn if it has
// another password since, or is disabled. The user is in it from then on, see User.Token.
func (s *Store) Begin(ctx context.Context, u *User) (Session, error) {
	id, secret, now := rand.Text(), rand.Text(), s.cfg.Now()
	until := s.until(now)
	err := s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id IN
			(SELECT id FROM (SELECT id FROM sessions WHERE user = ? ORDER BY until DESC LIMIT 1000000 OFFSET ?) AS old)`, u.ID, maxSessions-1); err != nil {
			return err
		}
		err := one(tx.ExecContext(ctx, `INSERT INTO sessions (id, mark, user, secret, began, until)
			SELECT ?, ?, id, ?, ?, ? FROM users WHERE id = ? AND hash = ? AND disabled = 0`,
			id, mark(id), secretHash(secret), now.Unix(), until.Unix(), u.ID, u.hash))
		if errors.Is(err, chat.ErrNoUser) {
			err = chat.ErrSignIn
		}
		return err
	})
	if err == nil {
		u.session = mark(id)
	}
	return Session{id + "." + secret, until}, err
}

// Refresh returns whose session a refresh token is of, and the next token in its place. The
// error is chat.ErrToken, or ErrReused, for one that is not good. For a while one that was good
// before has the same next token as the first time.
func (s *Store) Refresh(ctx context.Context, token string) (u *User, next Session, err error) {
	id, secret, _ := strings.Cut(token, ".")
	refused := chat.ErrToken // what is found out is written, so it is no error of the transaction
	var reused bool
	err = s.write(ctx, func(tx *sql.Tx) error {
		var known, user string
		var hash, before, salt []byte
		var began, until, rotated int64
		err := tx.QueryRowContext(ctx, `SELECT id, user, secret, "before", salt, began, until, rotated FROM sessions WHERE id = ?`, id).Scan(
			&known, &user, &hash, &before, &salt, &began, &until, &rotated)
		// A database may find an id that has spaces behind it, of which the mark would be another one: what ends
		// the session would not name the one by which connections were made.
		if errors.Is(err, sql.ErrNoRows) || err == nil && known != id {
			return nil
		}
		if err != nil {
			return err
		}
		now := s.cfg.Now()
		shown := secretHash(secret)
		again := subtle.ConstantTimeCompare(before, shown) == 1 && now.Before(time.Unix(rotated, 0).Add(lost))
		reused = !again && subtle.ConstantTimeCompare(hash, shown) != 1
		u, err = scan(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE id = ?`, user))
		if err != nil {
			return err
		}
		if reused || u.Disabled || now.Unix() >= until {
			_, err = tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ?`, id)
			return err
		}
		refused = nil
		if again {
			next = Session{id + "." + nextSecret(salt, secret), time.Unix(until, 0)}
			return nil
		}
		salt = []byte(rand.Text())
		secret = nextSecret(salt, secret)
		next = Session{id + "." + secret, s.until(time.Unix(began, 0))}
		_, err = tx.ExecContext(ctx, `UPDATE sessions SET mark = ?, "before" = secret, secret = ?, salt = ?, rotated = ?, until = ? WHERE id = ?`,
			mark(id), secretHash(secret), salt, now.Unix(), next.Until.Unix(), id)
		return err
	})
	switch {
	case err != nil:
		return nil, Session{}, err
	case reused:
		return u, Session{}, ErrReused
	case refused != nil:
		return nil, Session{}, refused
	}
	u.session = mark(id)
	return u, next, nil
}

// End ends the session of a refresh token, which may have been good before: who has it signs out.
func (s *Store) End(ctx context.Context, token string) error {
	id, _, _ := strings.Cut(token, ".")
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ?`, id)
		return err
	})
}

// expiredAtOnce bounds the sessions that are deleted in one transaction, for which all others who begin or end sessions
// wait: a tenth of a second on a busy machine.
const expiredAtOnce = 200

// deleteExpired deletes some sessions by their ids, of those that have expired, for who has used one since it was read has it
// still. They are no ends that anybody has to hear of, and many at once would be all that is kept: without a mark none is noted.
var deleteExpired = []string{`UPDATE sessions SET mark = ''` + these, `DELETE FROM sessions` + these}

var these = ` WHERE until <= ? AND id IN (?` + strings.Repeat(`, ?`, expiredAtOnce-1) + `)`

// Run deletes the sessions that have expired, now and every Config.Expire, until ctx ends. Failed is told of what is tried again then.
func (s *Store) Run(ctx context.Context, failed func(error)) {
	for {
		if err := s.expire(ctx); err != nil && ctx.Err() == nil {
			failed(fmt.Errorf("delete the sessions that have expired: %w", err))
		}
		if !pause.For(ctx, s.cfg.Expire) {
			return
		}
	}
}

// expire deletes the sessions that have expired. It goes through the ids once: a database keeps what is deleted for a
// while, and would look at it again each time. It looks for them outside of the transactions, which others wait for.
func (s *Store) expire(ctx context.Context) error {
	now := s.cfg.Now().Unix()
	for last := ""; ; {
		ids, err := s.expired(ctx, last, now)
		if err != nil || len(ids) == 0 {
			return err
		}
		last = ids[len(ids)-1]
		which := []any{now}
		for i := range expiredAtOnce {
			which = append(which, ids[min(i, len(ids)-1)])
		}
		err = s.write(ctx, func(tx *sql.Tx) error {
			for _, statement := range deleteExpired {
				if _, err := tx.ExecContext(ctx, statement, which...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// expired returns the next ids, after one, of sessions that have expired.
func (s *Store) expired(ctx context.Context, after string, now int64) (ids []string, err error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT id FROM sessions WHERE id > ? AND until <= ? ORDER BY id LIMIT ?`, after, now, expiredAtOnce)
	if err != nil {
		return nil, failed(err)
	}
	defer func() { _ = rows.Close() }() // it only read
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, failed(err)
		}
		ids = append(ids, id)
	}
	return ids, failed(rows.Err())
}

// InSession returns the user with an id that is in a session, as its access token names it, or chat.ErrNoUser: also if it has
// expired, and was not deleted yet.
func (s *Store) InSession(ctx context.Context, id, session string) (*User, error) {
	return scan(s.inSession.QueryRowContext(ctx, id, session, s.cfg.Now().Unix()))
}

// Ended returns the sessions whose connections are to end, noted after a number, the newest 10,000, and the
// number of the last: by whichever process. The first is 0.
func (s *Store) Ended(ctx context.Context, after int64) (sessions []string, last int64, err error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT number, session FROM ended WHERE number > ? ORDER BY number`, after)
	if err != nil {
		return nil, after, failed(err)
	}
	defer func() { _ = rows.Close() }() // it only read
	for last = after; rows.Next(); {
		var session string
		if err := rows.Scan(&last, &session); err != nil {
			return nil, after, failed(err)
		}
		sessions = append(sessions, session)
	}
	return sessions, last, failed(rows.Err())
}

// write does a transaction.
func (s *Store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.writes.BeginTx(ctx, nil)
	if err != nil {
		return failed(err)
	}
	if s.file == nil {
		// One after the other, as in a file: what has ended is numbered in the order in which it is seen.
		if _, err := tx.ExecContext(ctx, `UPDATE users_turn SET number = number + 1`); err != nil {
			return errors.Join(failed(err), tx.Rollback())
		}
	}
	if err := do(tx); err != nil {
		return errors.Join(failed(err), tx.Rollback())
	}
	if s.file == nil {
		return failed(tx.Commit())
	}
	return failed(s.file.Commit(ctx, tx))
}
