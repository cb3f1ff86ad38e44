package websocket

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
)

// The test binary is a server process of its own when this variable says so:
// what the clients cost is then theirs alone.
const roleVariable = "LOADSTONE_TEST_ROLE"

// serveHub sends every message to everybody there, as one frame for each on /ws and
// as one for all of 50 ms on /merged, and echoes on /echo, until its standard input ends.
func serveHub() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, listener.Addr()); err != nil {
		return err
	}
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	h := &preparedHub{conns: map[*websocket.Conn]bool{}}
	mux := http.NewServeMux()
	up := websocket.Upgrader{ReadBufferSize: 512, WriteBufferPool: &sync.Pool{}}
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			go h.handle(ws)
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			go echo(ws)
		}
	})
	merged := &preparedHub{conns: map[*websocket.Conn]bool{}, merges: true}
	go merged.tick()
	mux.HandleFunc("/merged", func(w http.ResponseWriter, r *http.Request) {
		if ws, err := up.Upgrade(w, r, nil); err == nil {
			go merged.handle(ws)
		}
	})
	return http.Serve(listener, mux)
}

// preparedHub is a hub that makes each frame once.
type preparedHub struct {
	mu     sync.Mutex
	conns  map[*websocket.Conn]bool
	merges bool
	kept   []byte // until the next tick
}

// tick sends what was said in 50 ms.
func (h *preparedHub) tick() {
	for range time.Tick(50 * time.Millisecond) {
		h.mu.Lock()
		if len(h.kept) > 0 {
			h.send(websocket.TextMessage, h.kept)
			h.kept = h.kept[:0]
		}
		h.mu.Unlock()
	}
}

// send sends one frame to all. It is locked.
func (h *preparedHub) send(kind int, message []byte) {
	frame, err := websocket.NewPreparedMessage(kind, message)
	if err != nil {
		return
	}
	for to := range h.conns {
		_ = to.WritePreparedMessage(frame)
	}
}

func (h *preparedHub) handle(ws *websocket.Conn) {
	h.mu.Lock()
	h.conns[ws] = true
	h.mu.Unlock()
	for {
		kind, message, err := ws.ReadMessage()
		if err != nil {
			break
		}
		h.mu.Lock()
		if h.merges {
			h.kept = append(append(h.kept, message...), '\n')
		} else {
			h.send(kind, message)
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	delete(h.conns, ws)
	h.mu.Unlock()
	_ = ws.Close()
}

// startHub starts a server process and returns its address.
func startHub(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=hub")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// resident is this process's memory in KiB, after what is free is given back.
func resident(b *testing.B) float64 {
	b.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	var kib float64
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		b.Fatal(err)
	}
	return kib
}

// processor is the CPU time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// startClients runs a Group until the benchmark ends, and returns when all its
// clients are connected.
func startClients(b *testing.B, config Config) *Group {
	b.Helper()
	epoch := time.Now()
	config.Now = func() time.Duration { return time.Since(epoch) }
	config.Record = func(Outcome) {}
	g, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	g.SetClients(config.Clients)
	done := make(chan error, 1)
	go func() { done <- g.Run(context.Background()) }()
	b.Cleanup(func() {
		g.Stop(0)
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); g.Stats().Open < int64(config.Clients); {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d clients are connected", g.Stats().Open, config.Clients)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return g
}

// What does an idle client cost? Read KiB/client: 30 is the budget. The clients
// send once in a while, so that what sending needs is there too.
func BenchmarkIdleClients(b *testing.B) {
	const clients = 8000 // the descriptors of a process are often 20,000
	url := "ws://" + startHub(b)
	for b.Loop() {
		before := resident(b)
		config := basic(url, clients)
		config.Path, config.Rate, config.ConnectRate, config.Timeout = "/echo", 0.05, 4000, 10*time.Second
		g := startClients(b, config)
		until := time.Now().Add(3 * time.Second)
		for time.Now().Before(until) {
			time.Sleep(10 * time.Millisecond)
		}
		b.ReportMetric((resident(b)-before)/clients, "KiB/client")
		b.ReportMetric(float64(g.Stats().Delivered), "deliveries")
	}
}

// What does a delivery cost in fan-out? 500 senders, 500 receivers, 250 messages of 230 bytes
// a second: read µs/delivery, of which there are 125,000 a second. With 2 µs one core takes
// 500,000 a second.
func BenchmarkFanOut(b *testing.B) {
	for _, path := range []string{"/ws", "/merged"} {
		b.Run(path[1:], func(b *testing.B) {
			config := basic("ws://"+startHub(b), 500)
			config.Path, config.Deliver, config.Rate, config.Timeout = path, load.DeliverAll, 0.5, 10*time.Second
			config.Message += strings.Repeat("x", 200)
			config.JoinAfter = 200 * time.Millisecond
			g := startClients(b, config)
			for b.Loop() {
				from, cpu, start := g.Stats().Delivered, processor(b), time.Now()
				for time.Since(start) < 5*time.Second {
					time.Sleep(10 * time.Millisecond)
				}
				n := float64(g.Stats().Delivered - from)
				used := float64((processor(b) - cpu).Microseconds()) / n
				b.ReportMetric(n/time.Since(start).Seconds(), "deliveries/s")
				b.ReportMetric(used, "cpu-µs/delivery")
				b.ReportMetric(1e6/used, "deliveries/cpu-s")
				b.ReportMetric(float64(g.Stats().Lost), "lost")
			}
		})
	}
}

// What does taking down a delivery cost, without the network? It allocates
// nothing.
func BenchmarkArrival(b *testing.B) {
	config := basic("ws://127.0.0.1:1", 500)
	config.Deliver = load.DeliverAll
	config.Now, config.Record = func() time.Duration { return 0 }, func(Outcome) {}
	g, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = g.free() }()
	for i := range config.Clients {
		c := g.newClient(i)
		g.clients = append(g.clients, c)
		c.seat.Store(g.rooms.of("").seat(i))
		c.seat.Load().set(true)
	}
	b.ReportAllocs()
	var text []byte
	i := 0
	for b.Loop() {
		if i%config.Clients == 0 {
			seq, ok := g.clients[0].talker.ledger.put(stamp{}, dues{at: g.rooms.of("")}, g.mostUnderWay, &g.count.inFlight)
			if !ok {
				b.Fatal("the ledger is full")
			}
			text = g.script.fill(text[:0], nil, 0, seq)
		}
		g.clients[i%config.Clients].arrived(nil, text, 1)
		i++
	}
}
