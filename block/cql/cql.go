// Package cql sets up sessions with Cassandra: where a cluster is, a keyspace and its
// tables that are made if they are not there, the bounds of what is under way, and how
// durable a row is. It says which kind an error of the driver is of.
//
// Statements go to a node that has the row (token-aware), and are done at QUORUM: of
// one replica that is the one, of three it is two, so that a read finds what a write
// was acknowledged for, with any one node gone. A write does not look first: the last
// one wins by its timestamp, which is this process's clock. Processes that write the
// same rows therefore need clocks that agree.
//
// It owns its session and the keyspace; statements and tables are the caller's, as the
// driver has them. A statement is tried again at another node, twice, if it says that
// it is Idempotent.
package cql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Config says which cluster, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	// Cluster is where it is.
	Cluster Address
	// Tables are the statements that make the keyspace's tables if they are not there;
	// %s stands for the keyspace.
	Tables []string
	// InFlight bounds the requests that are under way. One more is ErrBusy.
	InFlight int
	// ConnectTimeout bounds each step of connecting to a node.
	ConnectTimeout time.Duration
	// RequestTimeout bounds a read or write, its repetitions included.
	RequestTimeout time.Duration
}

// schemaTimeout bounds a change of the schema, which the nodes agree about: one that
// has just started takes seconds.
const schemaTimeout = 20 * time.Second

// DefaultConfig returns a configuration whose Cluster and Tables are for the caller to
// set.
//
//   - InFlight: 1024, as other stores' queues.
//   - ConnectTimeout: 2 s: a handshake is some round trips, and more on a node
//     that is just starting.
//   - RequestTimeout: 3 s, above the 2 s after which a node gives up a write, so
//     that it is the node that says why.
func DefaultConfig() Config {
	return Config{InFlight: 1024, ConnectTimeout: 2 * time.Second, RequestTimeout: 3 * time.Second}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Cluster.validate()}
	if c.InFlight < 1 {
		errs = append(errs, fmt.Errorf("cql: requests in flight are %d; must be at least 1", c.InFlight))
	}
	if c.ConnectTimeout <= 0 || c.RequestTimeout <= 0 {
		errs = append(errs, fmt.Errorf("cql: timeouts are %v and %v; must be positive", c.ConnectTimeout, c.RequestTimeout))
	}
	return errors.Join(errs...)
}

// Session is one with a keyspace of a cluster.
type Session struct {
	cfg        Config
	session    *gocql.Session
	inside     atomic.Int64 // requests under way
	durability Durability
	closed     atomic.Bool
	close      sync.Once
}

// Durability is what a write at QUORUM waits for.
type Durability struct {
	// Synced: every node that was asked syncs its commit log before it acknowledges.
	Synced bool
	// How says by which settings, in a few words for a person.
	How string
}

// Open connects, makes the keyspace and the tables if they are not there, and asks
// the nodes how durable a row is: where they acknowledge before their commit log is
// synced (commitlog_sync: periodic, the default) a power cut loses what every replica
// had only in memory. A keyspace with another number of replicas than Config says is
// ErrKeyspace. The driver's connecting knows no context: it may go on beyond ctx for
// Config.ConnectTimeout for each node.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg}
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("make the keyspace: %w", err)
	}
	cluster := cfg.clusterConfig(cfg.RequestTimeout)
	cluster.Keyspace = cfg.Cluster.Keyspace
	var err error
	if s.session, err = gocql.NewSession(*cluster); err != nil {
		return nil, fmt.Errorf("connect to Cassandra: %w", err)
	}
	if s.durability, err = s.ask(ctx); err != nil {
		closeSession(s.session)
		return nil, fmt.Errorf("ask Cassandra for its settings: %w", err)
	}
	return s, nil
}

// clusterConfig is what a session is made from.
func (c Config) clusterConfig(timeout time.Duration) *gocql.ClusterConfig {
	cluster := gocql.NewCluster(c.Cluster.Hosts...)
	cluster.Consistency = gocql.Quorum
	cluster.ConnectTimeout, cluster.Timeout = c.ConnectTimeout, timeout
	cluster.MaxWaitSchemaAgreement = schemaTimeout
	// The driver's minute is longer than anybody wants to wait for a node that is
	// back.
	cluster.ReconnectInterval = time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	// At another node, and once more at a third, if the statement may be repeated.
	// More often would multiply the load of a cluster that is in trouble. Once was too
	// little: for the seconds in which the driver learns that a node was killed, some
	// writes failed in each of three runs of TestRingOfThree, and none in two with twice.
	cluster.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 2}
	return cluster
}

// Do lends the session to run, within the bounds.
func (s *Session) Do(ctx context.Context, run func(ctx context.Context, session *gocql.Session) error) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.inside.Add(1) > int64(s.cfg.InFlight) {
		s.inside.Add(-1)
		return ErrBusy
	}
	defer s.inside.Add(-1)
	bounded, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return run(bounded, s.session)
}

// Durability is what a write waits for, as it was when the session was opened.
func (s *Session) Durability() Durability { return s.durability }

// Close ends the session. Do then returns ErrClosed. It may be called again.
func (s *Session) Close() {
	s.close.Do(func() {
		s.closed.Store(true)
		closeSession(s.session)
	})
}

// closeTimeout bounds the end of a session, which takes milliseconds.
const closeTimeout = 5 * time.Second

// closeSession closes a session, and leaves it if that takes too long: the driver
// (v2.1.2) never returns when it is just making its connection for events anew, as after
// the death of a node. The connections for requests are closed by then; what stays is
// goroutines that wait.
func closeSession(session *gocql.Session) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		session.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// The errors of a session. Nothing was tried.
var (
	// ErrBusy: too many requests are under way.
	ErrBusy = errors.New("too many requests to Cassandra are under way")
	// ErrClosed: the session was closed.
	ErrClosed = errors.New("the session with Cassandra is closed")
	// ErrKeyspace: the keyspace is there and is not as it should be.
	ErrKeyspace = errors.New("the keyspace is another one")
)

// Kind is what an error says of the cluster.
type Kind string

// All kinds.
const (
	// None: there is no error.
	None Kind = "none"
	// NotFound: there is no row.
	NotFound Kind = "not found"
	// Busy is ErrBusy.
	Busy Kind = "busy"
	// Closed is ErrClosed.
	Closed Kind = "closed"
	// Unavailable: too few nodes answer, or not in time. Whether something was done is
	// not known.
	Unavailable Kind = "unavailable"
	// Failed: the cluster refused what it was asked.
	Failed Kind = "failed"
)

// refused are the answers of a node that say that the request is wrong, rather
// than that it cannot be done now.
var refused = []int{
	gocql.ErrCodeProtocol, gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid,
	gocql.ErrCodeConfig, gocql.ErrCodeAlreadyExists, gocql.ErrCodeCredentials,
}

// KindOf returns the kind of an error of this package or of the driver. What is no
// answer of a node is Unavailable: an error of the caller's own must not be asked about.
func KindOf(err error) Kind {
	switch {
	case err == nil:
		return None
	case errors.Is(err, gocql.ErrNotFound):
		return NotFound
	case errors.Is(err, ErrBusy):
		return Busy
	case errors.Is(err, ErrClosed), errors.Is(err, gocql.ErrSessionClosed):
		return Closed
	case errors.Is(err, ErrKeyspace):
		return Failed
	}
	if answer, ok := errors.AsType[gocql.RequestError](err); ok && slices.Contains(refused, answer.Code()) {
		return Failed
	}
	return Unavailable
}
