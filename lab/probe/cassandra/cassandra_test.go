package cassandra

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/block/servertest"
	"loadstone/lab/driver/drivertest/probetest"
	"loadstone/lab/series"
	"loadstone/lab/topology"
)

// compose has so many nodes. Their Java compiles quickly rather than well, which
// makes a start shorter and does not change what they answer.
const compose = `
services:
  cassandra:
    image: cassandra
    environment:
      MAX_HEAP_SIZE: 256M
      CASSANDRA_SEEDS: cassandra
      JVM_EXTRA_OPTS: -XX:TieredStopAtLevel=1
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/localhost/9042"], interval: 200ms, retries: 900}
    deploy: {replicas: %d, resources: {limits: {memory: 1500M}}}
`

func open(t *testing.T, in topology.Instance) *Reader {
	t.Helper()
	r := Open(func() string { return net.JoinHostPort(in.Host, "9042") })
	t.Cleanup(r.Close)
	return r
}

// users is a session as a service has one: a connection to each node's pool, and
// one that hears of changes.
func users(t *testing.T, replicas int, instances ...topology.Instance) *gocql.Session {
	t.Helper()
	var hosts []string
	for _, in := range instances {
		hosts = append(hosts, in.Host)
	}
	c := gocql.NewCluster(hosts...)
	c.NumConns, c.Consistency, c.Timeout, c.ConnectTimeout = 1, gocql.All, 20*time.Second, 20*time.Second
	s, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the driver may never return from it, see block/cql
		closed := make(chan struct{})
		go func() { defer close(closed); s.Close() }()
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
		}
	})
	for _, statement := range []string{
		fmt.Sprintf("CREATE KEYSPACE lab WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': %d}", replicas),
		"CREATE TABLE lab.orders (id int PRIMARY KEY, dish text)",
	} {
		if err := s.Query(statement).ExecContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// insert writes rows, 64 at a time.
func insert(ctx context.Context, s *gocql.Session, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			return s.Query("INSERT INTO lab.orders (id, dish) VALUES (?, 'soup')", i).ExecContext(ctx)
		})
	}
	return g.Wait()
}

// figures are those of a pool by its resource's selectors.
func figures(t *testing.T, r *Reader, values map[string]float64, pool string) (size, inUse, waiting float64) {
	t.Helper()
	for _, resource := range r.Resources() {
		if resource.Name != pool || resource.Kind != topology.Pool {
			continue
		}
		for metric, place := range map[string]*float64{resource.Size: &size, resource.InUse: &inUse, resource.Waiting: &waiting} {
			s, err := series.ParseSelector(metric)
			if err != nil {
				t.Fatal(err)
			}
			n, ok := series.Total(values, s.Matches)
			if !ok {
				t.Errorf("%s has no series", metric)
			}
			*place = n
		}
		return size, inUse, waiting
	}
	t.Errorf("there is no pool %s in %+v", pool, r.Resources())
	return 0, 0, 0
}

func TestANodesPools(t *testing.T) {
	running := program.Up(t, fmt.Sprintf(compose, 1))
	in := running.Instances()[0]
	r := open(t, in)
	idle := probetest.Read(t, r)
	if size, inUse, waiting := figures(t, r, idle, requests); size < 1 || inUse != 0 || waiting != 0 || idle[clientsSeries] != 0 || idle[droppedSeries] != 0 {
		t.Errorf("got %v, want a node that nobody but the reader uses", idle)
	}
	s := users(t, 1, in)
	if got := probetest.Read(t, r)[clientsSeries]; got != 2 {
		t.Errorf("got %v connections, want the session's two", got)
	}

	far, address := make(chan error, 1), slow(t, net.JoinHostPort(in.Host, "9042"))
	go func() { far <- readSlow(t.Context(), address) }()
	inserted := make(chan error, 1)
	go func() { inserted <- insert(t.Context(), s, 5_000) }()
	most, under := 0.0, true
	for under {
		values := probetest.Read(t, r)
		_, inUse, _ := figures(t, r, values, requests)
		most = max(most, inUse)
		select {
		case err := <-inserted:
			if err != nil {
				t.Fatal(err)
			}
			under = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if most < 1 {
		t.Errorf("with 64 writers, %s was never in use", requests)
	}
	if size, _, _ := figures(t, r, probetest.Read(t, r), "MutationStage"); size < 1 {
		t.Errorf("got %v threads that write, want some", size)
	}
	if err := <-far; err != nil {
		t.Errorf("a node that takes long to answer: %v", err)
	}
	t.Logf("64 writers had at most %v of %s in use", most, requests)
	probetest.LogCost(t, in.PID, func() { probetest.Read(t, r) })

	if err := running.Kill(t.Context(), in.Name); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := r.Read(ctx); err == nil {
		t.Errorf("got %v of a node that was killed, want an error", got)
	}
	if _, err := running.Start(t.Context(), in.Name); err != nil {
		t.Fatal(err)
	}
	probetest.Read(t, r)
}

// delay is what a node takes to answer that has a small part of a CPU.
const delay = 1100 * time.Millisecond

// slow listens for a node, and passes its answers on late.
func slow(t *testing.T, node string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(servertest.Host(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go passOn(client, node)
		}
	}()
	return listener.Addr().String()
}

func passOn(client net.Conn, node string) {
	server, err := net.Dial("tcp", node)
	if err != nil {
		_ = client.Close()
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close() // which ends the other direction
	}()
	for buffer := make([]byte, 64<<10); err == nil; {
		var n int
		if n, err = server.Read(buffer); err == nil {
			time.Sleep(delay)
			_, err = client.Write(buffer[:n])
		}
	}
	_ = client.Close()
}

// readSlow reads a slow node, twice begun with less time than it takes to connect.
func readSlow(ctx context.Context, address string) error {
	for _, last := range []bool{false, true} {
		r := Open(func() string { return address })
		defer r.Close() // also while it connects
		short, cancel := context.WithTimeout(ctx, delay)
		_, err := r.Read(short)
		cancel()
		if err == nil || !last {
			continue
		}
		long, cancel := context.WithTimeout(ctx, time.Minute)
		values, err := r.Read(long)
		cancel()
		if size := values[poolSeries(sizeSeries, requests)]; err != nil || size < 1 {
			return fmt.Errorf("got a pool of %v and %w", size, err)
		}
	}
	return nil
}

func TestEachNodeOfARingTellsOfItself(t *testing.T) {
	servertest.Large(t)
	running := program.Up(t, fmt.Sprintf(compose, 3))
	instances := running.Instances()
	s := users(t, 3, instances...)
	if err := insert(t.Context(), s, 2_000); err != nil {
		t.Fatal(err)
	}
	var readers []*Reader
	for _, in := range instances {
		r := open(t, in)
		values := probetest.Read(t, r)
		for _, pool := range []string{requests, "MutationStage", "RequestResponseStage"} {
			if size, _, _ := figures(t, r, values, pool); size < 1 {
				t.Errorf("%s: got %v threads in %s", in.Name, size, pool)
			}
		}
		readers = append(readers, r)
	}
	if err := running.Kill(t.Context(), instances[2].Name); err != nil {
		t.Fatal(err)
	}
	for i, r := range readers {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := r.Read(ctx)
		cancel()
		if gone := i == 2; gone != (err != nil) {
			t.Errorf("%s: got %v, with the third node killed", instances[i].Name, err)
		}
	}
}
