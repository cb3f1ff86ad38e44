package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/servertest"
	"loadstone/lab/topology"
)

// ring is a session with a Cassandra cluster.
type ring struct {
	*gocql.Session

	t *testing.T
}

func cassandraClient(t *testing.T, consistency gocql.Consistency, instances ...topology.Instance) *ring {
	t.Helper()
	var hosts []string
	for _, in := range instances {
		hosts = append(hosts, in.Host)
	}
	cluster := gocql.NewCluster(hosts...)
	cluster.Consistency = consistency
	cluster.Timeout, cluster.ConnectTimeout = 2*time.Minute, 2*time.Minute // a schema change on a busy machine
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return &ring{Session: session, t: t}
}

func (r *ring) do(statement string, values ...any) {
	r.t.Helper()
	if err := r.Query(statement, values...).ExecContext(r.t.Context()); err != nil {
		r.t.Fatalf("%s: %v", statement, err)
	}
}

func (r *ring) create(replicas int) {
	r.t.Helper()
	r.do(fmt.Sprintf("CREATE KEYSPACE lab WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': %d}", replicas))
	r.do("CREATE TABLE lab.orders (id int PRIMARY KEY, dish text) WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}")
}

func (r *ring) insert(first, last int) {
	r.t.Helper()
	for i := first; i < last; i++ {
		r.do("INSERT INTO lab.orders (id, dish) VALUES (?, ?)", i, fmt.Sprint("dish ", i))
	}
}

// wantRows reads each row of the numbers below last.
func (r *ring) wantRows(last int) {
	r.t.Helper()
	for i := range last {
		var dish string
		if err := r.Query("SELECT dish FROM lab.orders WHERE id = ?", i).ScanContext(r.t.Context(), &dish); err != nil || dish != fmt.Sprint("dish ", i) {
			r.t.Fatalf("row %d: got %q, %v", i, dish, err)
		}
	}
}

func TestCassandraIsAsItsImage(t *testing.T) {
	installed(t, "cassandra")
	c := config(t, fmt.Sprintf(`
services:
  cassandra:
    image: cassandra:4.1
    environment:
      CASSANDRA_CLUSTER_NAME: kitchen
      CASSANDRA_SEEDS: cassandra
      MAX_HEAP_SIZE: 256M
      HEAP_NEWSIZE: 64M
      JVM_EXTRA_OPTS: -XX:TieredStopAtLevel=1 -Dcassandra.config.allow_system_properties=true -Dcassandra.settings.row_cache_size=8MiB
    volumes: [data:/var/lib/cassandra]
    healthcheck: %s
    deploy: {resources: {limits: {memory: 1500M}}}
volumes: {data: {}}
`, fmt.Sprintf(portCheck, 9042)))
	began := time.Now()
	r := up(t, c)
	t.Logf("it was ready after %v", time.Since(began).Round(time.Second/10))
	if w := strings.Join(r.Warnings(), "|"); !strings.Contains(w, "the image is cassandra:4.1, but the installed version, ") {
		t.Errorf("got warnings %q", w)
	}
	client := cassandraClient(t, gocql.One, r.Instances()...)
	client.create(1)
	client.insert(0, 300)
	client.wantRows(300)
	client.wantRows(300)
	logMemory(t, r)
	var name string
	if err := client.Query("SELECT cluster_name FROM system.local").ScanContext(t.Context(), &name); err != nil || name != "kitchen" {
		t.Errorf("got cluster %q, %v", name, err)
	}
	var capacity, hits int64
	if err := client.Query("SELECT capacity_bytes, hit_count FROM system_views.caches WHERE name = 'rows'").ScanContext(t.Context(), &capacity, &hits); err != nil || capacity != 8<<20 || hits < 300 {
		t.Errorf("got a row cache of %d bytes with %d hits, %v", capacity, hits, err)
	}
	client.Close()
	if err := r.Kill(t.Context(), "cassandra-1"); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if _, err := r.Start(t.Context(), "cassandra-1"); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed, it was ready again after %v", time.Since(began).Round(time.Second/10))
	client = cassandraClient(t, gocql.One, r.Instances()...)
	client.wantRows(300)
	client.Close()
	down(t, r)
	log, err := os.ReadFile(filepath.Join(c.LogDir, "cassandra-1.log"))
	if err != nil || !strings.Contains(string(log), "Log replay complete") {
		t.Errorf("it did not replay its commit log after it was killed: %v\n%s", err, log)
	}
	wantNoDirs(t, os.Getpid())
}

func TestThreeNodesAreARing(t *testing.T) {
	installed(t, "cassandra")
	servertest.Large(t)
	c := config(t, fmt.Sprintf(`
services:
  cassandra:
    image: cassandra
    environment: {CASSANDRA_SEEDS: cassandra, MAX_HEAP_SIZE: 384M}
    volumes: [data:/var/lib/cassandra]
    healthcheck: %s
    deploy: {replicas: 3, resources: {limits: {memory: 1500M}}}
volumes: {data: {}}
`, fmt.Sprintf(portCheck, 9042)))
	began := time.Now()
	r := up(t, c)
	t.Logf("three nodes were ready after %v", time.Since(began).Round(time.Second/10))
	client := cassandraClient(t, gocql.Quorum, r.Instances()...)
	client.create(3)
	client.insert(0, 200)
	if err := r.Kill(t.Context(), "cassandra-3"); err != nil {
		t.Fatal(err)
	}
	client.insert(200, 300)
	client.wantRows(300)
	if _, err := r.Start(t.Context(), "cassandra-3"); err != nil {
		t.Fatal(err)
	}
	client.wantRows(300)
	out, err := r.Exec(t.Context(), "cassandra-3", []string{"nodetool", "status", "lab"}, time.Minute)
	if err != nil || strings.Count(out, "UN  ") != 3 {
		t.Errorf("got %s, %v", out, err)
	}
	logMemory(t, r)
}
