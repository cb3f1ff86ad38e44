package reconcile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/reconcile/ledger"
	"loadstone/system/chat/serve"
)

// TestMain makes the test's own program the processes that are killed and stopped.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "part" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := runPart(ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runPart is a server with its directory, or viewers of one with their number.
func runPart(ctx context.Context, args []string) error {
	if args[0] == "viewers" {
		number, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		c := talk("http://"+args[1], number, 1, 20)
		c.AdminListen = args[2]
		r, err := Run(ctx, c)
		fmt.Println(r.Count, r.Wrong)
		return err
	}
	if args[0] == "shared" {
		return runShared(ctx, args[1], args[2], args[3], args[4])
	}
	c := serve.DefaultConfig()
	c.Data, c.Listen, c.AdminListen = args[0], args[1], "127.0.0.1:0"
	c.Drain, c.Hub.Tick = 0, 5*time.Millisecond
	// All are at one address, and the descriptors are for viewers.
	const many = 1_000_000
	c.MessagesPerUser, c.MessagesPerNetwork, c.GuestsPerNetwork, c.Hub.MaxPerAddress = 1000, many, many, many
	c.MaxConns, c.Hub.SendBuffer, c.Hub.MaxFrames = 4000, 4<<10, 1000
	if len(args) > 2 {
		c.Room.Bytes = 1 << 20 // more than is said
	}
	return serve.Run(ctx, c, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// talk is a configuration for a while that the test ends.
func talk(url string, viewers, senders int, rate float64) Config {
	c := DefaultConfig()
	c.URL, c.Viewers, c.Senders, c.Rate = url, viewers, senders, rate
	c.Streams = []int64{1, 2}[:min(viewers, 2)]
	c.For, c.Settle, c.AdminListen = 10*time.Minute, 2*time.Minute, "127.0.0.1:0"
	return c
}

// part is a process of this test's program.
func part(t *testing.T, stdout *os.File, address string, args ...string) *servertest.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return servertest.New(t, servertest.Program{
		Command: append([]string{self, "part"}, args...), Log: filepath.Join(t.TempDir(), "log"), Stdout: stdout, Ready: servertest.Dials(address),
	})
}

// server is one with two streams.
func server(t *testing.T, more ...string) (process *servertest.Process, address string) {
	t.Helper()
	c := logstore.DefaultConfig()
	c.Dir = t.TempDir()
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	streams, err := chat.InventStreams(2)
	if err := errors.Join(err, log.AddStreams(streams), log.Close()); err != nil {
		t.Fatal(err)
	}
	address = servertest.Host() + ":8097"
	process = part(t, nil, address, append([]string{c.Dir, address}, more...)...)
	process.Start()
	return process, address
}

// reconciliation is one that is under way.
type reconciliation struct {
	*reconciler
	t     *testing.T
	hush  context.CancelFunc
	ended chan error
}

func begin(t *testing.T, c Config) *reconciliation {
	t.Helper()
	r := &reconciliation{reconciler: newReconciler(c), t: t, ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.hush = context.WithCancel(context.Background())
	go func() { r.ended <- r.reconcile(ctx) }()
	t.Cleanup(func() { _, _ = r.end() })
	return r
}

// end ends the talk and returns what was found. It may be called again.
func (r *reconciliation) end() (Result, error) {
	r.hush()
	err := <-r.ended
	r.ended <- err
	return r.result(), err
}

// balanced ends the talk, and checks that nothing is wrong.
func (r *reconciliation) balanced() Count {
	r.t.Helper()
	result, err := r.end()
	if c := result.Count; err != nil || !c.Balanced() || c.Acked != c.Stored || c.Due != c.Delivered+c.Skipped {
		r.t.Fatalf("got %v, %v and %v", c, err, result.Wrong)
	}
	return result.Count
}

// reach waits until something holds.
func reach(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within two minutes: ", what)
		}
	}
}

// kill kills a server again and again, each time after so many messages more and when all
// viewers are there.
func kill(r *reconciliation, server *servertest.Process, kills int, after int64) {
	for range kills {
		want := r.now().Acked + after
		reach(r.t, "messages are acked and all viewers are there", func() bool {
			return r.now().Acked >= want && r.here.Load() == int64(r.cfg.Viewers)
		})
		server.Kill()
		server.Start()
	}
	reach(r.t, "all viewers come back", func() bool {
		return r.returns.Load() >= int64(kills*r.cfg.Viewers) && r.here.Load() == int64(r.cfg.Viewers)
	})
}

// The server is killed while people talk: nothing that was acked is lost, and all viewers come
// back, miss nothing and see nothing twice.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	process, address := server(t, "keep")
	r := begin(t, talk("http://"+address, 12, 6, 200))
	kill(r, process, 3, 20)
	c := r.balanced()
	t.Log(c)
	if c.Skipped != 0 {
		t.Errorf("%d messages were skipped, and the rooms had all", c.Skipped)
	}
}

func TestTheServerIsKilledOftenLarge(t *testing.T) {
	servertest.Large(t)
	process, address := server(t)
	r := begin(t, talk("http://"+address, 500, 50, 500))
	kill(r, process, 15, 500)
	t.Log(r.balanced())
}

// Ten thousand viewers come back at once. After how long the last of them is there is the
// machine's as well: the experiment storm has an objective on it.
func TestAStormLarge(t *testing.T) {
	servertest.Large(t)
	process, address := server(t)
	r := begin(t, talk("http://"+address, 10_000, 20, 5))
	kill(r, process, 1, 5)
	t.Log(r.balanced())
}

// gauge reads a metric, -1 if it cannot.
func gauge(t *testing.T, address, name string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return -1
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return -1
}

// stopped has viewers stopped while so many messages are said, and returns what they say at the end, and how
// much more memory the server has then, in bytes.
func stopped(t *testing.T, viewers, messages int) (said string, growth int64) {
	t.Helper()
	process, address := server(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	admin := servertest.Host() + ":9094"
	child := part(t, write, admin, "viewers", address, admin, strconv.Itoa(viewers))
	child.Start()
	reach(t, "the viewers talk", func() bool { return gauge(t, admin, "reconcile_acked") > 0 })
	before := memory(t, process)
	child.Pause()
	c := talk("http://"+address, 32, 32, 4000)
	c.Streams = c.Streams[:min(viewers, 2)] // those that they are in
	r := begin(t, c)
	reach(t, "much is said", func() bool { return r.now().Acked >= int64(messages) })
	t.Log(r.balanced())
	growth = memory(t, process) - before
	child.Resume()
	reach(t, "they are told what was skipped, and talk on", func() bool { return gauge(t, admin, "reconcile_skipped") > 0 })
	acked := gauge(t, admin, "reconcile_acked")
	reach(t, "they talk on", func() bool { return gauge(t, admin, "reconcile_acked") > acked })
	child.Stop()
	text, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), growth
}

// memory is the resident memory of a process, in bytes.
func memory(t *testing.T, p *servertest.Process) int64 {
	t.Helper()
	n, err := p.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A viewer that was stopped is told what it missed, and goes on.
func TestAViewerIsStopped(t *testing.T) {
	t.Parallel()
	if said, _ := stopped(t, 1, 1500); !strings.Contains(said, "; 0 violations; ") {
		t.Errorf("got %s", said)
	}
}

// What stopped viewers have not seen is not kept for them.
func TestManyViewersAreStoppedLarge(t *testing.T) {
	servertest.Large(t)
	const viewers, messages, size = 500, 10_000, 180
	said, growth := stopped(t, viewers, messages)
	t.Logf("%d bytes more; %s", growth, said)
	if !strings.Contains(said, "; 0 violations; ") || growth > viewers*messages*size/10 {
		t.Errorf("got %s and %d bytes more", said, growth)
	}
}

// Others go on talking while books are compared.
func TestOthersTalkOn(t *testing.T) {
	t.Parallel()
	_, address := server(t)
	others := begin(t, talk("http://"+address, 4, 4, 1000))
	reach(t, "others talk", func() bool { return others.now().Acked > 10 })
	r := begin(t, talk("http://"+address, 4, 2, 100))
	reach(t, "something is acked", func() bool { return r.now().Acked > 10 })
	r.balanced()
	others.balanced()
}

// A server that shows another log than the one that it acked from is found out.
func TestALossIsFound(t *testing.T) {
	t.Parallel()
	process, address := server(t)
	r := begin(t, talk("http://"+address, 2, 2, 100))
	reach(t, "something is acked", func() bool { return r.now().Acked > 2 })
	r.books.Acked(1, &chat.Message{Sender: "somebody", ID: "never said", Offset: 1 << 40})
	result, err := r.end()
	if c := result.Count; err != nil || c.Balanced() || c.Wrong != 1 || c.Acked != c.Stored+1 || !strings.Contains(result.Wrong[0].Text, "never said") {
		t.Errorf("got %v, %v and %v", c, err, result.Wrong)
	}
	c := talk("http://"+address, 2, 2, 100)
	c.Settle = 300 * time.Millisecond
	process.Kill()
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "2 of 2 viewers could not join") {
		t.Errorf("of a server that is gone: got %v", err)
	}
}

// Where somebody waits in vain for an answer, what is due is known all the same.
func TestASenderWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	process, address := server(t)
	c := talk("http://"+address, 2, 2, 100)
	c.Streams = c.Streams[:1] // of which something is acked
	begun := begin(t, c)
	reach(t, "something is acked", func() bool { return begun.now().Acked > 2 })
	begun.balanced()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r := newReconciler(begun.cfg)
	r.members[0].talk(t.Context(), over)
	if c := r.now(); c.Unanswered != 1 || c.Balanced() || !strings.HasSuffix(c.String(), ", without an answer 1") {
		t.Errorf("got %v", c)
	}
	due, err := r.lengths(over)
	if err != nil || due[1] == 0 {
		t.Errorf("got the lengths %v, %v", due, err)
	}
	r.books.Viewer(1, "blind").Joined("", 0, false)
	r.settle(over, due)
	if err := r.compare(over, due); err != nil || r.now().Wrong == 0 {
		t.Errorf("somebody saw nothing: got %v, %v", r.now(), err)
	}
	process.Kill()
	gone, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	r.cfg.Settle = -callTimeout
	if due, err := r.lengths(gone); err == nil {
		t.Errorf("of a server that is gone: got %v", due)
	}
}

// What is refused, and what is never shown, are not in balance.
func TestWhatBalances(t *testing.T) {
	t.Parallel()
	good := ledger.Count{Acked: 1, Stored: 1, Due: 1, Delivered: 1}
	for c, want := range map[Count]bool{
		{Count: good}:                               true,
		{Count: good, Repeated: 1, Returns: 1}:      true,
		{Count: good, Refused: 1}:                   false,
		{Count: good, Unanswered: 1}:                false,
		{Count: ledger.Count{Acked: 1, Stored: 1}}:  false,
		{Count: ledger.Count{Due: 1, Delivered: 1}}: false,
	} {
		if c.Balanced() != want {
			t.Errorf("%v: got %v", c, !want)
		}
	}
}

func TestWrongNumbersAreRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"write http://HOST:PORT":                                func(c *Config) { c.URL = "ftp://x" },
		"streams [0] are checked":                               func(c *Config) { c.Streams = []int64{0} },
		"0 viewers: write one for each stream to 20000":         func(c *Config) { c.Viewers, c.Senders = 0, 0 },
		"30 of 20 viewers say something":                        func(c *Config) { c.Senders = 30 },
		"they talk for 0s":                                      func(c *Config) { c.For = 0 },
		"write a rate above 0, and at most 2000000 in all":      func(c *Config) { c.Rate = 1e9 },
		"0 messages a second for 30s: write a rate above 0, an": func(c *Config) { c.Rate = 0 },
	} {
		c := DefaultConfig()
		c.URL = "http://127.0.0.1:1"
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
