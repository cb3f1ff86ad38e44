// Package cassandrastore keeps activities in Cassandra: the NoSQL of "SQL to
// NoSQL".
//
// Reads and writes are prepared, go to a node that has the row (token-aware), and
// are done at QUORUM: of one replica that is the one, of three it is two, so that
// a read finds what a write was acknowledged for, with any one node gone. A write
// does not look first: the last one wins by its timestamp, which is this
// process's clock. Replicas of the service therefore need clocks that agree to
// better than the time in which a client might replace its own activity.
//
// When a node acknowledges before its commit log is synced (commitlog_sync:
// periodic, its default) a power cut loses what every replica had only in memory.
// Open asks each node, and Durability tells.
//
// The store owns its session, the keyspace and the table activities in it, and
// makes them if they are not there.
package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/system/patterns/activity"
)

// Config says which cluster, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	// Cluster is where it is.
	Cluster Address
	// ConnsPerNode is the number of connections to each node. One carries many
	// requests at a time.
	ConnsPerNode int
	// InFlight bounds the requests that are under way. One more is busy.
	InFlight int
	// ConnectTimeout bounds each step of connecting to a node.
	ConnectTimeout time.Duration
	// RequestTimeout bounds a read or write, its one repetition included.
	RequestTimeout time.Duration
	// SchemaTimeout bounds a change of the schema, which the nodes agree about.
	SchemaTimeout time.Duration
}

// DefaultConfig returns a configuration whose Cluster is for the caller to set.
//
//   - ConnsPerNode: 2, the driver's own. One would do, and two let a slow answer
//     not stand in front of all others.
//   - InFlight: 1024, as other stores' queues.
//   - ConnectTimeout: 2 s: a handshake is some round trips, and more on a node
//     that is just starting.
//   - RequestTimeout: 3 s, above the 2 s after which a node gives up a write, so
//     that it is the node that says why.
//   - SchemaTimeout: 20 s: a node that has just started takes seconds.
func DefaultConfig() Config {
	return Config{
		ConnsPerNode: 2, InFlight: 1024,
		ConnectTimeout: 2 * time.Second, RequestTimeout: 3 * time.Second, SchemaTimeout: 20 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Cluster.validate()}
	if c.ConnsPerNode < 1 || c.InFlight < 1 {
		errs = append(errs, fmt.Errorf("cassandrastore: connections are %d and requests in flight %d; must be at least 1", c.ConnsPerNode, c.InFlight))
	}
	if c.ConnectTimeout <= 0 || c.RequestTimeout <= 0 || c.SchemaTimeout <= 0 {
		errs = append(errs, fmt.Errorf("cassandrastore: timeouts are %v, %v and %v; must be positive", c.ConnectTimeout, c.RequestTimeout, c.SchemaTimeout))
	}
	return errors.Join(errs...)
}

const (
	put = `INSERT INTO activities (id, user_name, kind, at_ms, details) VALUES (?, ?, ?, ?, ?)`
	get = `SELECT user_name, kind, at_ms, details FROM activities WHERE id = ?`
)

// Store is an activity.Store over one keyspace of a cluster.
type Store struct {
	cfg        Config
	session    *gocql.Session
	gate       activity.Gate
	durability activity.Durability
	closed     atomic.Bool
	close      sync.Once
}

// Open connects, makes the keyspace and the table if they are not there, and asks
// the nodes how durable a row is. A cluster that cannot be reached is an error that
// wraps activity.ErrUnavailable; a keyspace with another number of replicas than
// Config says is one that says so. The driver's connecting knows no context: it may
// go on beyond ctx for Config.ConnectTimeout for each node.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, gate: activity.NewGate(cfg.InFlight)}
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("make the keyspace of activities: %w", classify(err))
	}
	cluster := cfg.clusterConfig(cfg.RequestTimeout)
	cluster.Keyspace = cfg.Cluster.Keyspace
	var err error
	if s.session, err = gocql.NewSession(*cluster); err != nil {
		return nil, fmt.Errorf("connect to Cassandra: %w", classify(err))
	}
	if s.durability, err = s.ask(ctx); err != nil {
		s.session.Close()
		return nil, fmt.Errorf("ask Cassandra for its settings: %w", classify(err))
	}
	return s, nil
}

// clusterConfig is what a session is made from.
func (c Config) clusterConfig(timeout time.Duration) *gocql.ClusterConfig {
	cluster := gocql.NewCluster(c.Cluster.Hosts...)
	cluster.Consistency = gocql.Quorum
	cluster.NumConns = c.ConnsPerNode
	cluster.ConnectTimeout, cluster.Timeout = c.ConnectTimeout, timeout
	cluster.MaxWaitSchemaAgreement = c.SchemaTimeout
	// The driver's minute is longer than anybody wants to wait for a node that is
	// back.
	cluster.ReconnectInterval = time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	// At another node, and once more at a third: every statement here may be repeated.
	// More often would multiply the load of a cluster that is in trouble. Once was too
	// little: for the seconds in which the driver learns that a node was killed, some
	// writes failed in each of three runs of TestRingOfThree, and none in two with twice.
	cluster.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 2}
	return cluster
}

// do lends the session, within the bounds.
func (s *Store) do(ctx context.Context, run func(context.Context) error) error {
	if s.closed.Load() {
		return activity.ErrClosed
	}
	if !s.gate.Enter() {
		return activity.ErrBusy
	}
	defer s.gate.Leave()
	bounded, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return classify(run(bounded))
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	err := s.do(ctx, func(ctx context.Context) error {
		return s.session.Query(put, a.ID, a.User, a.Kind, a.Millis(), a.Details).Idempotent(true).ExecContext(ctx)
	})
	if err != nil {
		return fmt.Errorf("store activity %s: %w", a.ID, err)
	}
	return nil
}

// Get implements activity.Store.
func (s *Store) Get(ctx context.Context, id string) (activity.Activity, error) {
	a, at := activity.Activity{ID: id}, int64(0)
	err := s.do(ctx, func(ctx context.Context) error {
		return s.session.Query(get, id).Idempotent(true).ScanContext(ctx, &a.User, &a.Kind, &at, &a.Details)
	})
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
	a.At = activity.Time(at)
	return a, nil
}

// refused are the answers of a node that say that the request is wrong, rather
// than that it cannot be done now.
var refused = []int{
	gocql.ErrCodeProtocol, gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid,
	gocql.ErrCodeConfig, gocql.ErrCodeAlreadyExists, gocql.ErrCodeCredentials,
}

// classify gives an error of the driver the identity that activity.Store promises.
func classify(err error) error {
	var answer gocql.RequestError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gocql.ErrNotFound):
		return activity.ErrNotFound
	case errors.Is(err, errKeyspace), errors.As(err, &answer) && slices.Contains(refused, answer.Code()):
		return err
	case errors.Is(err, gocql.ErrSessionClosed):
		return activity.ErrClosed
	default:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	}
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability { return s.durability }

// Close implements activity.Store.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		s.session.Close()
	})
	return nil
}
