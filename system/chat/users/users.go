// Package users keeps the people who have signed up, in a SQLite database, or in the MariaDB that several
// servers share: their names, the hashes of their passwords, who they are elsewhere (OpenID Connect), their
// sessions, and whom they follow.
//
// # Sessions
//
// A session is a family of refresh tokens, of which one is good. A refresh token is
// FAMILY.SECRET, both random: it is no JSON Web Token, so that nobody takes it for an access
// token. The database has the secret's hash. Whoever shows the good one has the next one, and
// the old one is good no longer. One that is shown a second time was copied by somebody, and
// nobody knows who of both is the thief: the family ends, and its user signs in again. For
// twenty seconds the token before is answered once more, with the same next one: an answer may
// have been lost on the way, as when somebody reloads a page. The next secret is made of the one
// before and a salt in the database, so that neither of both alone tells it.
//
// Sessions end when their users sign out, are disabled or have another password, and when a token
// is used twice. Who has let a user in by a session finds it in Ended then, whichever process did it. One that has expired is no longer
// good from then on, and is not in Ended: who has let its user in has done so for the time of an access token.
//
// # What an answer tells
//
// SignUp and SignIn take as long, and say the same, whether there is an account or not: what is
// hashed, read and written is the same.
//
// # Whose an address is
//
// Nobody proves that an e-mail address is theirs: it is a name to sign in with. An account whose
// password an operator gave is Vouched; of others an operator must not think that it is the
// address's owner who has it.
//
// Who has signed up elsewhere is known by the issuer and the subject there, and never by an
// e-mail address: nobody proved here that it is theirs.
package users

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"loadstone/block/account"
	"loadstone/block/sqlite"
	"loadstone/system/chat"
)

// Config says where the users are.
type Config struct {
	// Path is the file. It is made if there is none.
	Path string
	// Database is a MariaDB that several servers share, in place of a file, if there is one. Close closes it, too.
	Database *sql.DB
	// PasswordCost is that of new hashes, see account.Cost.
	PasswordCost int
	// Idle is how long a session lasts in which nothing is asked for, and Longest any.
	Idle, Longest time.Duration
	// Expire is how often Run deletes the sessions that have expired.
	Expire time.Duration
	// Now is the time.
	Now func() time.Time
}

// DefaultConfig has sessions of two weeks, from each visit on, and a quarter of a year in all.
func DefaultConfig(path string) Config {
	const day = 24 * time.Hour
	return Config{Path: path, PasswordCost: account.Cost, Idle: 14 * day, Longest: 90 * day, Expire: time.Hour, Now: time.Now}
}

// maxSessions bounds those of a user: one more ends the one that was not used for longest.
const maxSessions = 20

// maxFollowed bounds the hosts that a user follows.
const maxFollowed = 1000

// maxEmail bounds an address, in bytes, as mail does.
const maxEmail = 254

// User is somebody who has signed up.
type User struct {
	ID string
	// Email is what one signs in with; empty for who signs in elsewhere.
	Email    string
	Name     string
	Picture  string
	Role     chat.Role
	Disabled bool
	// Vouched is that an operator gave the password: who has the account is whom the operator
	// takes for the address's owner. Else anybody may have signed up with it.
	Vouched bool
	Created time.Time
	// Followers is how many follow the user.
	Followers int

	hash    string // of the password
	session string // that it is in, if it was begun or renewed
}

// Token is what an access token says of the user.
func (u *User) Token() chat.User {
	return chat.User{ID: u.ID, Name: u.Name, Role: u.Role, Session: u.session}
}

// New is somebody who is to be added.
type New struct {
	Email, Password, Name string
	Role                  chat.Role
}

// Check returns what is wrong with it, or nil: a *chat.Error.
func (n *New) Check() error {
	if account.CheckLength(n.Password) != nil {
		return chat.ErrPassword
	}
	if _, err := address(n.Email); err != nil {
		return err
	}
	return chat.CheckName(n.Name)
}

// address is the one form of an e-mail address.
func address(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	unseen := func(r rune) bool { return !unicode.IsPrint(r) } // a terminal obeys it, or hides it
	if err != nil || parsed.Address != text || len(text) > maxEmail || strings.ContainsFunc(text, unseen) {
		return "", chat.ErrEmail
	}
	return strings.ToLower(text), nil
}

// Store has the users. It is safe for concurrent use. Errors are *chat.Error, wrapped, where
// callers tell them apart; chat.ErrAccounts is one of the database.
type Store struct {
	cfg           Config
	file          *sqlite.DB // nil where they are in a MariaDB
	reads, writes *sql.DB
	passwords     *account.Passwords
	byID          *sql.Stmt
	inSession     *sql.Stmt // each request with an access token asks it
}

// Open opens the file, or makes it, for its owner alone, and so the directory if there is none; or the tables of
// the database.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	s := &Store{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the users: %w", err), s.Close())
		}
	}()
	if s.passwords, err = account.NewPasswords(cfg.PasswordCost); err != nil {
		return nil, err
	}
	if cfg.Database == nil {
		err = s.openFile(ctx)
	} else {
		s.reads, s.writes = cfg.Database, cfg.Database
		err = s.makeTables(ctx)
	}
	if err != nil {
		return nil, err
	}
	if s.byID, err = s.reads.PrepareContext(ctx, `SELECT `+columns+` FROM users WHERE id = ?`); err != nil {
		return nil, err
	}
	if s.inSession, err = s.reads.PrepareContext(ctx, `SELECT `+columns+` FROM users WHERE id = ? AND EXISTS (SELECT 1 FROM sessions WHERE sessions.user = users.id AND mark = ? AND until > ?)`); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) openFile(ctx context.Context) (err error) {
	const owner = 0o700
	if err := os.MkdirAll(filepath.Dir(s.cfg.Path), owner); err != nil {
		return err
	}
	if err := private(s.cfg.Path); err != nil {
		return err
	}
	if s.file, err = sqlite.Open(ctx, s.cfg.Path); err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Path, err)
	}
	s.reads, s.writes = s.file.Read, s.file.Write
	if err := s.file.Make(ctx, tables); err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Path, err)
	}
	return nil
}

// private makes the file, or what there is of the database, one that only its owner reads: what
// SQLite puts beside it has the same mode. One that exists is not opened, since closing it
// would take away the locks of whoever else in the process has it.
func private(path string) error {
	const owner = 0o600
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, owner)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, part := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(path+part, owner); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close closes the database.
func (s *Store) Close() error {
	var errs []error
	for _, statement := range []*sql.Stmt{s.byID, s.inSession} {
		if statement != nil {
			errs = append(errs, statement.Close())
		}
	}
	switch {
	case s.file != nil:
		errs = append(errs, s.file.Close())
	case s.writes != nil:
		errs = append(errs, s.writes.Close())
	}
	return errors.Join(errs...)
}

var tables = sqlite.Schema{
	ApplicationID: 0x63686174, // "chat"
	Version:       5,
	Statements: []string{
		`CREATE TABLE users (
			id TEXT PRIMARY KEY, email TEXT UNIQUE, hash TEXT NOT NULL DEFAULT '', vouched INTEGER NOT NULL DEFAULT 0, issuer TEXT, subject TEXT,
			name TEXT NOT NULL, picture TEXT NOT NULL DEFAULT '', role TEXT NOT NULL, disabled INTEGER NOT NULL DEFAULT 0,
			created INTEGER NOT NULL, followers INTEGER NOT NULL DEFAULT 0, asked INTEGER NOT NULL DEFAULT 1,
			UNIQUE (issuer, subject)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE sessions (
			id TEXT PRIMARY KEY, mark TEXT NOT NULL DEFAULT '', user TEXT NOT NULL, secret BLOB NOT NULL, began INTEGER NOT NULL, until INTEGER NOT NULL,
			before BLOB, salt BLOB, rotated INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID`,
		`CREATE INDEX sessions_of ON sessions (user, until)`,
		`CREATE TABLE follows (user TEXT NOT NULL, host TEXT NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (user, host)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE subscriptions (user TEXT NOT NULL, host TEXT NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (user, host)) STRICT, WITHOUT ROWID`,
		endedTable, endedTrigger,
	},
	Upgrades: map[int][]string{4: {`DROP TRIGGER session_ended`, endedTrigger}, 3: {`ALTER TABLE users ADD COLUMN vouched INTEGER NOT NULL DEFAULT 0`}, 2: {`ALTER TABLE sessions ADD COLUMN mark TEXT NOT NULL DEFAULT ''`, endedTable, endedTrigger}, 1: {
		`ALTER TABLE sessions ADD COLUMN before BLOB`, `ALTER TABLE sessions ADD COLUMN salt BLOB`,
		`ALTER TABLE sessions ADD COLUMN rotated INTEGER NOT NULL DEFAULT 0`,
	}},
}

// Sessions are noted here however they end, for those who have let their users in, but for those that have expired: these
// have no mark any more, see deleteExpired.
const (
	endedTable   = `CREATE TABLE ended (number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL) STRICT`
	endedTrigger = `CREATE TRIGGER session_ended AFTER DELETE ON sessions WHEN OLD.mark <> '' BEGIN
		INSERT INTO ended (session) VALUES (OLD.mark);
		DELETE FROM ended WHERE number <= (SELECT max(number) FROM ended) - 10000;
	END`
)

const columns = `id, coalesce(email, ''), name, picture, role, disabled, created, followers, hash, vouched`

// scan reads a row of columns.
func scan(row interface{ Scan(to ...any) error }) (*User, error) {
	u := &User{}
	var created int64
	err := row.Scan(&u.ID, &u.Email, &u.Name, &u.Picture, &u.Role, &u.Disabled, &created, &u.Followers, &u.hash, &u.Vouched)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, chat.ErrNoUser
	}
	u.Created = time.Unix(created, 0).UTC()
	return u, failed(err)
}

// failed is an error of the database.
func failed(err error) error {
	if known, ok := errors.AsType[*chat.Error](err); err == nil || ok && known != nil {
		return err
	}
	return fmt.Errorf("%w: %w", chat.ErrAccounts, err)
}

// Find returns the user with an id or, if there is an @ in it, an e-mail address.
func (s *Store) Find(ctx context.Context, name string) (*User, error) {
	if strings.Contains(name, "@") {
		return scan(s.reads.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE email = ?`, strings.ToLower(name)))
	}
	return scan(s.byID.QueryRowContext(ctx, name))
}

// Each calls take with each user, in the order of ids.
func (s *Store) Each(ctx context.Context, take func(u *User) error) error {
	rows, err := s.reads.QueryContext(ctx, `SELECT `+columns+` FROM users ORDER BY id`)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = rows.Close() }() // it only read
	for rows.Next() {
		u, err := scan(rows)
		if err == nil {
			err = take(u)
		}
		if err != nil {
			return err
		}
	}
	return failed(rows.Err())
}

// SignUp adds a user. Where there is an account with the address nothing changes, and the
// answer is the same.
func (s *Store) SignUp(ctx context.Context, n New) error {
	_, err := s.put(ctx, n, false)
	return err
}

// Add is SignUp for an operator, who is told: there reports that there is such an account.
func (s *Store) Add(ctx context.Context, n New) (u *User, there bool, err error) {
	id, err := s.put(ctx, n, true)
	if err != nil {
		return nil, false, err
	}
	u, err = s.Find(ctx, n.Email)
	return u, err == nil && u.ID != id, err
}

// put makes an account if there is none with the address, and one write either way.
func (s *Store) put(ctx context.Context, n New, vouched bool) (id string, err error) {
	if err := n.Check(); err != nil {
		return "", err
	}
	email, err := address(n.Email)
	if err != nil {
		return "", err
	}
	hash, err := s.passwords.Hash(ctx, n.Password)
	if err != nil {
		return "", overloaded(err)
	}
	id = chat.NewUserID()
	there := `ON CONFLICT (email) DO UPDATE SET`
	if s.file == nil {
		there = `ON DUPLICATE KEY UPDATE`
	}
	_, err = s.writes.ExecContext(ctx, `INSERT INTO users (id, email, hash, name, role, created, vouched) VALUES (?, ?, ?, ?, ?, ?, ?)
		`+there+` asked = asked + 1`, id, email, hash, n.Name, n.Role, s.cfg.Now().Unix(), vouched)
	return id, failed(err)
}

// overloaded is an error of a hash.
func overloaded(err error) error {
	if errors.Is(err, account.ErrBusy) {
		return fmt.Errorf("%w: %w", chat.ErrTooMany, err)
	}
	return err
}

// SignIn returns the user with an e-mail address and password, or chat.ErrSignIn.
func (s *Store) SignIn(ctx context.Context, email, password string) (*User, error) {
	email = strings.ToLower(email)
	u, err := scan(s.reads.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE email = ?`, email))
	// A database may find an address that has spaces behind it. Who counts attempts by what was written would
	// count those of each as another account's.
	if errors.Is(err, chat.ErrNoUser) || err == nil && u.Email != email {
		u, err = &User{}, nil // nobody's password
	}
	if err != nil {
		return nil, err
	}
	match, err := s.passwords.Match(ctx, u.hash, password)
	if err != nil {
		return nil, overloaded(err)
	}
	if !match || u.Disabled {
		return nil, chat.ErrSignIn
	}
	return u, nil
}

// Elsewhere is who somebody is at a provider of identities. Issuer and Subject are one's name.
type Elsewhere struct{ Issuer, Subject, Name, Picture string }

// FromElsewhere returns the user who signed in there, and makes one the first time. The name
// and the picture are taken then; from there on they are the user's to change.
func (s *Store) FromElsewhere(ctx context.Context, e Elsewhere) (*User, error) {
	// A database takes a text with spaces behind it for the one without: both would be one user.
	if strings.HasSuffix(e.Issuer, " ") || strings.HasSuffix(e.Subject, " ") {
		return nil, fmt.Errorf("%w: %q of %q ends with a space", chat.ErrSignIn, e.Subject, e.Issuer)
	}
	if err := errors.Join(chat.CheckName(e.Name), chat.CheckPicture(e.Picture)); err != nil {
		return nil, err
	}
	var u *User
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		find := func() error {
			u, err = scan(tx.QueryRowContext(ctx, `SELECT `+columns+` FROM users WHERE issuer = ? AND subject = ?`, e.Issuer, e.Subject))
			return err
		}
		if err := find(); !errors.Is(err, chat.ErrNoUser) {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO users (id, issuer, subject, name, picture, role, created) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			chat.NewUserID(), e.Issuer, e.Subject, e.Name, e.Picture, chat.Member, s.cfg.Now().Unix()); err != nil {
			return err
		}
		return find()
	})
	if err == nil && u.Disabled {
		return nil, chat.ErrSignIn
	}
	return u, err
}
