// Package cassandra asks a Cassandra node how full its thread pools are, how many
// clients it has, what it compacts and which messages it dropped, out of its
// virtual tables in system_views.
//
// It only reads, and only what the one node knows of itself: each node of a ring
// has a Reader of its own. What the question itself takes, a request and its
// connections, is left out. A node has a pool from its first task on, so a pool
// may come late.
//
// The virtual tables know less than JMX does. Compactions that wait are the tasks
// that wait for CompactionExecutor, and not Cassandra's estimate of what is still
// to be compacted. Dropped messages are those between nodes; a node that is alone
// has none.
//
// A question costs 1.8 ms of CPU here and 4.4 ms in a node whose Java compiles
// quickly rather than well, so a second of watching takes under 1 % of a core for
// each node:
//
//	go test -v -run TestANodesPools ./lab/probe/cassandra
package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/lab/topology"
)

// DefaultPort is where nodes take CQL unless they are told otherwise.
const DefaultPort = 9042

// The series that Read tells. Those of pools have the label pool; all but the last
// are gauges.
const (
	activeSeries      = "cassandra_pool_active"  // tasks under way
	sizeSeries        = "cassandra_pool_size"    // how many can be
	pendingSeries     = "cassandra_pool_pending" // tasks that wait for a thread
	blockedSeries     = "cassandra_pool_blocked" // tasks that wait for a place among those
	clientsSeries     = "cassandra_clients"      // connections
	compactionsSeries = "cassandra_compactions"  // under way
	droppedSeries     = "cassandra_messages_dropped"
)

// requests is the pool that takes clients' requests, this one's as well.
const requests = "Native-Transport-Requests"

// pools are those that are told of: what serves requests, and what keeps up behind
// them. The others, of one thread each, keep house.
var pools = []string{
	requests, "ReadStage", "MutationStage", "CounterMutationStage", "ViewMutationStage", "RequestResponseStage",
	"CompactionExecutor", "MemtableFlushWriter",
}

// answerWithin bounds each part of a question and of a connection, for a node that has
// a part of a CPU and as many requests as it can serve. Read's ctx bounds the question as a whole.
const answerWithin = 10 * time.Second

// Reader reads one node. It is for one goroutine at a time, but for Resources.
type Reader struct {
	address func() string
	at      string         // the address that the rest is of
	session *gocql.Session // nil while there is no connection
	opening chan opened    // nil while none is made
	own     *dialer

	mu   sync.Mutex // protects seen
	seen map[string]bool
}

type opened struct {
	session *gocql.Session
	err     error
}

// Open makes a reader of the node at address, HOST:PORT or empty while it is nowhere, which is asked for each time: a
// node that is started again may have another one. It connects when it is first asked, so that
// the node may start later.
func Open(address func() string) *Reader {
	return &Reader{address: address, seen: make(map[string]bool)}
}

// Close ends its connections. No Read may be under way.
func (r *Reader) Close() {
	if r.opening != nil {
		r.own.close()
		r.session = (<-r.opening).session
		r.opening = nil
	}
	if r.session != nil {
		r.session.Close()
		r.session = nil
	}
}

// Read asks the node. What takes longer than ctx lasts is no reason to begin anew: a
// connection that is being made is there for the next question. After other errors
// it connects again when it is next asked: the node may have been started again.
func (r *Reader) Read(ctx context.Context) (map[string]float64, error) {
	if err := r.connect(ctx); err != nil {
		return nil, fmt.Errorf("connect to Cassandra at %s: %w", r.at, err)
	}
	out := make(map[string]float64)
	for _, part := range []func(context.Context, map[string]float64) error{r.pools, r.clients, r.compactions, r.dropped} {
		if err := part(ctx, out); err != nil {
			if ctx.Err() == nil {
				r.Close()
			}
			return nil, fmt.Errorf("read system_views of Cassandra at %s: %w", r.at, err)
		}
	}
	return out, nil
}

// connect opens a session with this node alone, which is not told of others or of
// changes: a node that is asked of itself is asked over one connection.
func (r *Reader) connect(ctx context.Context) error {
	if at := r.address(); at != r.at {
		r.Close() // nobody is there any more, or somebody else
		r.at = at
	}
	if r.at == "" {
		return errors.New("it has no address")
	}
	if r.session != nil {
		return nil
	}
	if r.opening == nil {
		r.own = &dialer{conns: make(map[int]net.Conn)}
		c := gocql.NewCluster(r.at)
		c.NumConns, c.Consistency, c.Dialer, c.Logger = 1, gocql.One, r.own, silent{}
		c.Timeout, c.ConnectTimeout, c.MaxWaitSchemaAgreement = answerWithin, answerWithin, answerWithin
		c.DisableInitialHostLookup = true
		c.Events.DisableNodeStatusEvents, c.Events.DisableTopologyEvents, c.Events.DisableSchemaEvents = true, true, true
		opening := make(chan opened, 1)
		r.opening = opening
		go func() {
			session, err := c.CreateSession()
			opening <- opened{session, err}
		}()
	}
	select {
	case o := <-r.opening:
		r.opening, r.session = nil, o.session
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// each calls f after each row that a statement gives is in the places.
func (r *Reader) each(ctx context.Context, statement string, f func(), places ...any) error {
	rows := r.session.Query(statement).IterContext(ctx)
	for rows.Scan(places...) {
		f()
	}
	return rows.Close()
}

func (r *Reader) pools(ctx context.Context, out map[string]float64) error {
	var name string
	var active, size, pending int
	var blocked int64
	found := 0
	err := r.each(ctx, "SELECT name, active_tasks, active_tasks_limit, pending_tasks, blocked_tasks FROM system_views.thread_pools", func() {
		if !slices.Contains(pools, name) {
			return
		}
		if name == requests {
			active = max(active-1, 0) // the question itself
		}
		out[poolSeries(activeSeries, name)], out[poolSeries(sizeSeries, name)] = float64(active), float64(size)
		out[poolSeries(pendingSeries, name)], out[poolSeries(blockedSeries, name)] = float64(pending), float64(blocked)
		r.mu.Lock()
		r.seen[name] = true
		r.mu.Unlock()
		found++
	}, &name, &active, &size, &pending, &blocked)
	if err == nil && found == 0 {
		err = errors.New("thread_pools has none of the pools that serve requests")
	}
	return err
}

func (r *Reader) clients(ctx context.Context, out map[string]float64) error {
	n, port := 0, 0
	err := r.each(ctx, "SELECT port FROM system_views.clients", func() {
		if !r.own.has(port) {
			n++
		}
	}, &port)
	out[clientsSeries] = float64(n)
	return err
}

func (r *Reader) compactions(ctx context.Context, out map[string]float64) error {
	n, kind := 0, ""
	err := r.each(ctx, "SELECT kind FROM system_views.sstable_tasks", func() { n++ }, &kind)
	out[compactionsSeries] = float64(n)
	return err
}

// dropped adds up messages to and from other nodes that came too late, did not
// fit or could not be read.
func (r *Reader) dropped(ctx context.Context, out map[string]float64) error {
	var late, full, broken, n int64
	add := func() { n += late + full + broken }
	if err := r.each(ctx, "SELECT expired_count, overload_count, error_count FROM system_views.internode_outbound", add, &late, &full, &broken); err != nil {
		return err
	}
	full = 0
	err := r.each(ctx, "SELECT expired_count, error_count FROM system_views.internode_inbound", add, &late, &broken)
	out[droppedSeries] = float64(n)
	return err
}

func poolSeries(name, pool string) string { return fmt.Sprintf("%s{pool=%q}", name, pool) }

// Resources are the pools that were read so far, by name.
func (r *Reader) Resources() []topology.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []topology.Resource
	for name := range r.seen {
		out = append(out, topology.Resource{
			Name: name, Kind: topology.Pool,
			Size: poolSeries(sizeSeries, name), InUse: poolSeries(activeSeries, name), Waiting: poolSeries(pendingSeries, name),
		})
	}
	slices.SortFunc(out, func(a, b topology.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// dialer remembers this program's connections by the ports that they come from.
type dialer struct {
	mu     sync.Mutex
	conns  map[int]net.Conn
	closed bool
}

// DialContext makes a connection.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	simple := net.Dialer{Timeout: answerWithin}
	conn, err := simple.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	if from, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		d.conns[from.Port] = conn
	}
	return conn, nil
}

// close ends the connections, so that a session that is being opened fails.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, conn := range d.conns {
		_ = conn.Close() // whoever waits for it is told
	}
}

func (d *dialer) has(port int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[port] != nil
}

// silent is a logger: what goes wrong is in the errors that Read returns.
type silent struct{}

func (silent) Error(string, ...gocql.LogField)   {}
func (silent) Warning(string, ...gocql.LogField) {}
func (silent) Info(string, ...gocql.LogField)    {}
func (silent) Debug(string, ...gocql.LogField)   {}
