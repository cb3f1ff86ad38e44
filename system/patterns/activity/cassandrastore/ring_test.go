package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

// node is one of three of a cluster, on a loopback address of its own.
type node struct {
	t       *testing.T
	host    string
	command []string
	dir     string
	cmd     *exec.Cmd
}

// nodeSettings are what differs from the program's own defaults.
const nodeSettings = `
cluster_name: ring
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: %[1]s
rpc_address: %[1]s
commitlog_sync: batch
commitlog_directory: %[2]s/commitlog
saved_caches_directory: %[2]s/saved_caches
hints_directory: %[2]s/hints
cdc_raw_directory: %[2]s/cdc_raw
data_file_directories: [%[2]s/data]
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: %[3]s}]
`

// startRing starts three nodes, one after the other, because Cassandra lets one join
// at a time.
func startRing(t *testing.T) []*node {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "loadstone", "cassandra-*", "bin", "cassandra-node"))
	if err != nil || len(found) == 0 {
		const missing = "Cassandra is not there; get it with `make deps`"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	var ring []*node
	pid := os.Getpid() // 22 bits at most; the tests of one node have 127.192 and up
	for i := range 3 {
		n := &node{t: t, dir: t.TempDir(), host: net.IPv4(127, byte(130+4*i+pid>>16), byte(pid>>8), byte(pid)).String()}
		first := n.host
		if i > 0 {
			first = ring[0].host
		}
		if err := os.WriteFile(filepath.Join(n.dir, "cassandra.yaml"), fmt.Appendf(nil, nodeSettings, n.host, n.dir, first), 0o600); err != nil {
			t.Fatal(err)
		}
		n.command = []string{
			slices.Max(found), "-Xms384m", "-Xmx384m", "-Djava.io.tmpdir=" + n.dir, "-Djna.tmpdir=" + n.dir,
			"-Dcassandra.config=file://" + filepath.Join(n.dir, "cassandra.yaml"), "-Dcassandra.storagedir=" + n.dir,
			"-Dcassandra.logdir=" + filepath.Join(n.dir, "logs"),
			// What is waited for on a network takes microseconds here.
			"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=2000",
		}
		t.Cleanup(n.kill)
		n.start()
		ring = append(ring, n)
	}
	return ring
}

// start starts the node, the first time or after kill, and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	n.cmd = exec.Command(n.command[0], n.command[1:]...)
	n.cmd.Dir, n.cmd.Stdout, n.cmd.Stderr = n.dir, log, log
	n.cmd.Env = []string{"PATH=/usr/bin:/bin", "CASSANDRA_CONF=" + n.dir, "HOME=" + n.dir, "XDG_CACHE_HOME=" + n.dir}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	const limit = 3 * time.Minute
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.Dial("tcp", n.host+":9042")
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			n.t.Fatalf("%s does not serve after %v: %v\n%s", n.host, limit, err, text[max(0, len(text)-4000):])
		}
	}
}

// kill ends the node with SIGKILL and waits until it is gone.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	if err := n.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Error(err)
	}
	_ = n.cmd.Wait() // it was killed
	n.cmd = nil
}

// writing is several writers that store activities until they are told to end. As a
// client of the service would, they send again what was answered with an error.
type writing struct {
	stored atomic.Int64 // acknowledged
	failed atomic.Int64 // attempts that were not

	end context.CancelFunc
	all sync.WaitGroup
	mu  sync.Mutex
	ids []string // acknowledged
	// Of the attempts that failed: how many for which reason, and the first and last.
	why      map[string]int
	from, to time.Time
}

func write(s *Store, name string) *writing {
	ctx, end := context.WithCancel(context.Background())
	w := &writing{end: end}
	for k := range 4 {
		w.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.one(ctx, s, activitytest.Example(fmt.Sprintf("%s-%d-%d", name, k, i)))
			}
		})
	}
	return w
}

// one stores one activity, however often it takes.
func (w *writing) one(ctx context.Context, s *Store, a activity.Activity) {
	for ctx.Err() == nil {
		err := s.Put(ctx, &a)
		if err != nil && ctx.Err() != nil {
			return // it was told to end: stored or not, nobody was told so
		}
		if err != nil {
			w.failed.Add(1)
			w.mu.Lock()
			if w.why == nil {
				w.why, w.from = map[string]int{}, time.Now()
			}
			_, reason, _ := strings.Cut(err.Error(), ": ") // what comes before is the id
			w.why[reason]++
			w.to = time.Now()
			w.mu.Unlock()
			continue
		}
		w.mu.Lock()
		w.ids = append(w.ids, a.ID)
		w.mu.Unlock()
		w.stored.Add(1)
		return
	}
}

// more waits until n more were stored.
func (w *writing) more(t *testing.T, n int64) {
	t.Helper()
	const limit = time.Minute
	first := w.stored.Load()
	for deadline := time.Now().Add(limit); w.stored.Load() < first+n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d were stored within %v, and %d attempts failed", w.stored.Load()-first, n, limit, w.failed.Load())
		}
	}
}

// finish ends the writers and returns what was acknowledged.
func (w *writing) finish() []string {
	w.end()
	w.all.Wait()
	return w.ids
}

// lost returns which of the activities the store does not give back as they were put.
// It asks again, as a client would, while the nodes find out who of them is dead.
func lost(t *testing.T, s *Store, ids []string) []string {
	t.Helper()
	var lost []string
	deadline, again := time.Now().Add(2*time.Minute), 0
	for _, id := range ids {
		got, err := s.Get(t.Context(), id)
		for errors.Is(err, activity.ErrUnavailable) && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
			again++
			got, err = s.Get(t.Context(), id)
		}
		if err != nil && !errors.Is(err, activity.ErrNotFound) {
			t.Fatalf("%s: %v", id, err)
		}
		if want := activitytest.Example(id); err != nil || got != want {
			lost = append(lost, id)
		}
	}
	t.Logf("%d read, %d not there; %d attempts had no answer", len(ids), len(lost), again)
	return lost
}

// Three nodes with each row on all of them take and give back activities while one is
// dead, and lose none, whichever two are asked later. With two dead, nobody is told
// that a row is stored.
func TestRingOfThree(t *testing.T) {
	if os.Getenv("LARGE") != "1" {
		t.Skip("it starts three nodes, which takes minutes and gigabytes; LARGE=1 runs it")
	}
	began := time.Now()
	ring := startRing(t)
	t.Logf("three nodes were ready after %v", time.Since(began).Round(time.Second/10))
	cfg := DefaultConfig()
	cfg.Cluster = Address{[]string{ring[0].host, ring[1].host, ring[2].host}, "activities", 3}
	s := open(t, cfg)
	if d := s.Durability(); !d.Synced || !strings.Contains(d.How, "3 replicas, QUORUM") {
		t.Errorf("got %+v", d)
	}

	w := write(s, "kill")
	w.more(t, 300)
	ring[2].kill()
	w.more(t, 600)
	ids := w.finish()
	t.Logf("%d stored, one node killed meanwhile; %d attempts failed within %v: %v", len(ids), w.failed.Load(), w.to.Sub(w.from), w.why)
	if missing := lost(t, s, ids); len(missing) != 0 {
		t.Errorf("with a node dead %d of %d are missing, such as %s", len(missing), len(ids), missing[0])
	}
	if missing := lost(t, s, []string{"never-stored", ids[0]}); len(missing) != 1 {
		t.Errorf("got %v, want the one that was never stored: nobody would notice a loss", missing)
	}

	// The one that was dead and one of the others: each row is on that one.
	ring[2].start()
	ring[1].kill()
	if missing := lost(t, s, ids); len(missing) != 0 {
		t.Errorf("read from the node that was dead and one other, %d of %d are missing, such as %s", len(missing), len(ids), missing[0])
	}

	ring[2].kill()
	a := activitytest.Example("minority")
	if err := s.Put(t.Context(), &a); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("put with two nodes dead: got %v, want ErrUnavailable", err)
	}
}
