package servertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// CassandraNode is a Cassandra that listens on Host.
type CassandraNode struct {
	*Process

	Host string
	// Home is where its program is: the parent of bin and lib.
	Home string
}

// CassandraConfig says how a node differs from others.
type CassandraConfig struct {
	// CommitLog is the lines of its configuration about the commit log, such as
	// "commitlog_sync: batch".
	CommitLog string
	// Settings is further lines of its configuration.
	Settings string
	// Seed is the host of the node whose cluster it joins; empty for its own.
	Seed string
	// JMX has the node answer JMX at port 7199 of its host, without a password.
	JMX bool
	// LazySchema has the node write changes of the schema to disk when it likes, and not
	// before it answers. Who kills it calls FlushSchema first.
	LazySchema bool
}

// cassandraSettings are what differs from the program's own defaults.
const cassandraSettings = `
cluster_name: test
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: %[1]s
rpc_address: %[1]s
%[3]s
%[5]s
commitlog_directory: %[2]s/commitlog
saved_caches_directory: %[2]s/saved_caches
hints_directory: %[2]s/hints
cdc_raw_directory: %[2]s/cdc_raw
data_file_directories: [%[2]s/data]
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: %[4]s}]
`

// Cassandra starts a node and waits until it serves. One node at a time may join a
// cluster.
func Cassandra(tb testing.TB, cfg CassandraConfig) *CassandraNode {
	tb.Helper()
	program := Fetched(tb, "Cassandra", "cassandra-*/bin/cassandra-node")
	dir, host := tb.TempDir(), Host()
	// What is waited for on a network takes microseconds here, and a node alone
	// waits for nobody.
	seed, ringDelay := cfg.Seed, "2000"
	if seed == "" {
		seed, ringDelay = host, "1000"
	}
	settings := filepath.Join(dir, "cassandra.yaml")
	writef(tb, settings, cassandraSettings, host, dir, cfg.CommitLog, seed, cfg.Settings)
	command := []string{
		program, "-Xms384m", "-Xmx384m", "-Djava.io.tmpdir=" + dir, "-Djna.tmpdir=" + dir,
		// Compiled quickly rather than well, as Kafka.
		"-XX:TieredStopAtLevel=1", "-XX:-UseG1GC", "-XX:+UseSerialGC",
		"-Dcassandra.config=file://" + settings, "-Dcassandra.storagedir=" + dir,
		"-Dcassandra.logdir=" + filepath.Join(dir, "logs"),
		"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=" + ringDelay,
	}
	if cfg.JMX {
		command = append(command, "-Djava.rmi.server.hostname="+host)
		for _, setting := range []string{"host=" + host, "port=7199", "rmi.port=7199", "authenticate=false", "ssl=false"} {
			command = append(command, "-Dcom.sun.management.jmxremote."+setting)
		}
	}
	if cfg.LazySchema {
		command = append(command, "-Dcassandra.test.flush_local_schema_changes=false")
	}
	n := &CassandraNode{Host: host, Home: filepath.Dir(filepath.Dir(program)), Process: New(tb, Program{
		Command: command,
		Env:     []string{"PATH=/usr/bin:/bin", "CASSANDRA_CONF=" + dir, "HOME=" + dir, "XDG_CACHE_HOME=" + dir},
		Dir:     dir, Log: filepath.Join(dir, "log"),
		Ready: Dials(net.JoinHostPort(host, "9042")), // it takes connections when it has joined
	})}
	n.Start()
	return n
}

// FlushSchema writes what LazySchema has left in memory to disk: a node that starts reads
// its schema before its commit log. It needs JMX.
func (n *CassandraNode) FlushSchema() {
	n.tb.Helper()
	flush := exec.CommandContext(n.tb.Context(), filepath.Join(n.Home, "bin", "nodetool"), "-h", n.Host, "flush", "system_schema")
	flush.Env = n.program.Env // its history is in HOME
	n.check("flush the schema of", run(flush))
}

// CassandraRing starts n nodes of one cluster, one after the other.
func CassandraRing(tb testing.TB, n int, cfg CassandraConfig) []*CassandraNode {
	tb.Helper()
	var ring []*CassandraNode
	for range n {
		ring = append(ring, Cassandra(tb, cfg))
		cfg.Seed = ring[0].Host
	}
	return ring
}
