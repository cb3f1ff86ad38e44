// Package registry has the streams of a chat that several servers serve together, in a MariaDB, or
// MySQL, that they share, and the key with which they sign tokens.
//
// Each server has all streams in memory, and looks every Config.Look what has changed: so a stream
// that another server started or ended is known here that much later. While the database cannot be
// asked, what was known goes on; nothing is started or ended.
package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"loadstone/block/pause"
	"loadstone/block/redact"
	"loadstone/system/chat"
)

// AddressForm says how the address of the database is written, for people.
const AddressForm = "mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE"

// Config says where the database is. Start from DefaultConfig.
type Config struct {
	// Address is in the form of AddressForm. Password is that of the address if it has none.
	Address, Password string
	// Look is how often it is looked what has changed.
	Look time.Duration
	// Timeout bounds each call.
	Timeout time.Duration
	// Patience is how long a start waits for a database that does not answer.
	Patience time.Duration
	// Failed is told of what goes wrong in the background and is tried again, and once of a start that has to wait.
	Failed func(error)
}

// DefaultConfig leaves the address to the caller.
func DefaultConfig() Config {
	return Config{Look: 500 * time.Millisecond, Timeout: 3 * time.Second, Patience: 2 * time.Minute, Failed: func(error) {}}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	_, err := c.driver()
	errs := []error{err}
	if c.Look <= 0 || c.Timeout <= 0 || c.Patience <= 0 {
		errs = append(errs, fmt.Errorf("the database is asked every %v, may take %v, and is awaited for %v: write more than 0", c.Look, c.Timeout, c.Patience))
	}
	return errors.Join(errs...)
}

// driver reads the address.
func (c Config) driver() (*mysql.Config, error) {
	u, err := url.Parse(c.Address)
	switch {
	case err != nil: // without the reason, which quotes the password
		return nil, errors.New("the database must be " + AddressForm + ", with special characters of a password written as %XX")
	case u.Scheme != "mysql" || u.Hostname() == "" || u.User.Username() == "" || len(u.Path) < 2 || u.RawQuery != "":
		return nil, fmt.Errorf("the database is %q, must be %s", redact.Address(c.Address), AddressForm)
	}
	d := mysql.NewConfig()
	d.Net, d.Addr, d.DBName = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306")), strings.TrimPrefix(u.Path, "/")
	d.User, d.Passwd = u.User.Username(), c.Password
	if password, ok := u.User.Password(); ok {
		d.Passwd = password
	}
	d.Timeout, d.ReadTimeout, d.WriteTimeout = c.Timeout, c.Timeout, c.Timeout
	// An update that changes nothing has found its row.
	d.ClientFoundRows = true
	// What goes wrong is an error of a call.
	d.Logger = &mysql.NopLogger{}
	// SQL as others write it.
	d.Params = map[string]string{
		"sql_mode": "'ANSI_QUOTES,STRICT_ALL_TABLES'",
		// Whole seconds, of which one is the least. By default the database waits for a lock for 50, long after the
		// caller has given up, and a connection of its own is taken by each who does.
		"innodb_lock_wait_timeout": strconv.Itoa(max(1, int(c.Timeout.Seconds()/2))),
		// What a server that has vanished had locked is free after that, in place of eight hours: no FIN came.
		// MariaDB has a time for idle transactions alone, and MySQL has not.
		"wait_timeout": strconv.Itoa(seconds(silences * c.Timeout)),
	}
	return d, nil
}

// silences are how many times Timeout the database waits for a connection on which nothing comes. Between the calls of
// a transaction next to no time passes, and a connection that nobody uses is closed here after one Timeout.
const silences = 2

// seconds are the whole ones of which a time has a part.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// Connect returns the database, to which it has not connected yet.
func (c Config) Connect() (*sql.DB, error) {
	d, err := c.driver()
	if err = errors.Join(err, c.Validate()); err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(d)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(c.Timeout)
	return db, nil
}

// Registry is safe for concurrent use.
type Registry struct {
	cfg Config
	db  *sql.DB
	key []byte

	mu      sync.RWMutex // never held over a call of the database
	streams map[int64]chat.Stream
}

// tables are made if they are not there. A host has one stream that is live: live_host says so.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS chat_meta (name VARCHAR(32) PRIMARY KEY, value VARBINARY(255) NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS chat_streams (
		id BIGINT PRIMARY KEY, title TEXT NOT NULL, host TEXT NOT NULL, host_id VARCHAR(64) NOT NULL,
		started BIGINT NOT NULL, ended BIGINT NOT NULL DEFAULT 0,
		live_host VARCHAR(64) AS (IF(ended = 0 AND host_id <> '', host_id, NULL)) VIRTUAL,
		UNIQUE (live_host), KEY (ended)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
}

const (
	openPause   = 200 * time.Millisecond
	connections = 8
	keyBytes    = 32
)

// Open connects, makes the tables if they are not there, and reads all streams. It waits for the
// database, see Await.
func Open(ctx context.Context, cfg Config) (*Registry, error) {
	db, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	r := &Registry{cfg: cfg, db: db, streams: map[int64]chat.Stream{}}
	if err := cfg.Await(ctx, r.open); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database %s: %w", redact.Address(cfg.Address), err), r.db.Close())
	}
	return r, nil
}

// Await does something of which the errors are the database's until it has answered, for Patience at most, or ctx ends. That
// others have what it would lock, as those that start at the same time, is no answer. Failed is told, once, why it waits.
func (c Config) Await(ctx context.Context, do func(ctx context.Context) error) error {
	const quiet = 2 * time.Second // as long as others take that start at the same time
	within, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	began, told := time.Now(), false
	var why error
	for {
		err := do(within)
		if err == nil || answered(err) {
			return err
		}
		over := within.Err() != nil
		if why == nil || !over { // else it is that the time is over
			why = c.reason(err)
		}
		if !told && !over && time.Since(began) >= quiet {
			told = true
			c.Failed(fmt.Errorf("the database %s does not answer yet, and the start waits for it for %v at most: %w", redact.Address(c.Address), c.Patience, why))
		}
		switch {
		case pause.For(within, openPause):
		case ctx.Err() != nil:
			return why
		default:
			return fmt.Errorf("it has not answered within %v: %w", c.Patience, why)
		}
	}
}

// reason is an error of a call as it is said: the driver has one for all that may become of a connection.
func (c Config) reason(err error) error {
	if errors.Is(err, mysql.ErrInvalidConn) {
		return fmt.Errorf("it ended a connection, or said nothing on it for %v: %w", c.Timeout, err)
	}
	return err
}

// answered reports whether an error is what the database says of a statement, and would say again.
func answered(err error) bool {
	const lockedForLong, deadlock = 1205, 1213
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number != lockedForLong && answer.Number != deadlock
}

func (r *Registry) open(ctx context.Context) error {
	for _, statement := range tables {
		if _, err := r.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	var key [keyBytes]byte
	_, _ = rand.Read(key[:]) // it never fails
	// The first server's is everybody's.
	if _, err := r.db.ExecContext(ctx, `INSERT IGNORE INTO chat_meta (name, value) VALUES ('key', ?)`, key[:]); err != nil {
		return err
	}
	if err := r.db.QueryRowContext(ctx, `SELECT value FROM chat_meta WHERE name = 'key'`).Scan(&r.key); err != nil {
		return err
	}
	return r.look(ctx, 0)
}

// Close closes the connections.
func (r *Registry) Close() error { return r.db.Close() }

// Key signs the tokens of all servers.
func (r *Registry) Key() []byte { return r.key }

// Run looks what has changed until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Look)
	defer tick.Stop()
	for seen := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		const doubt = time.Minute // between the clocks of servers
		began := time.Now()
		if err := r.look(ctx, seen.Add(-doubt).UnixMilli()); err == nil {
			seen = began
		} else if ctx.Err() == nil {
			r.cfg.Failed(fmt.Errorf("look what has changed: %w", err))
		}
	}
}

// look reads the streams that are live, and those that ended after a time.
func (r *Registry) look(ctx context.Context, after int64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	rows, err := r.db.QueryContext(ctx, `SELECT id, title, host, host_id, started, ended FROM chat_streams WHERE ended = 0 OR ended >= ?`, after)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var found []chat.Stream
	for rows.Next() {
		var s chat.Stream
		var started, ended int64
		if err := rows.Scan(&s.ID, &s.Title, &s.Host, &s.HostID, &started, &ended); err != nil {
			return err
		}
		s.Started = time.UnixMilli(started).UTC()
		if ended > 0 {
			s.Ended = time.UnixMilli(ended).UTC()
		}
		found = append(found, s)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range found {
		r.put(s)
	}
	return nil
}

// put is called with r.mu held. What has ended stays so, whoever has read it before.
func (r *Registry) put(s chat.Stream) {
	if have, ok := r.streams[s.ID]; !ok || have.Live() {
		r.streams[s.ID] = s
	}
}

// Stream returns a stream, or chat.ErrNoStream.
func (r *Registry) Stream(id int64) (chat.Stream, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s, ok := r.streams[id]; ok {
		return s, nil
	}
	return chat.Stream{}, chat.ErrNoStream
}

// Streams returns all streams, those that are live first, and of them the newest first.
func (r *Registry) Streams() []chat.Stream {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.streams), chat.CompareStreams)
}

// LiveStream is the stream of a host that is live, if there is one.
func (r *Registry) LiveStream(host string) (id int64, live bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for id, s := range r.streams {
		if s.Live() && s.HostID == host {
			return id, true
		}
	}
	return 0, false
}
