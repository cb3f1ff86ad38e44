package nginx_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/system/results/httpapi"
)

// Many connections that send or read slowly keep nobody out, whether one address holds them
// or a hundred do, at NGINX and at the API alone. With LARGE=1 there are 8,300 of each kind, and
// the log says how long everybody else's requests take before and meanwhile.
func TestSlowConnections(t *testing.T) {
	program(t) // not parallel: it needs the files
	store, _ := published(t)
	count, asked := 300, 200
	if os.Getenv("LARGE") != "" {
		count, asked = 8300, 3000
	}
	form := "id=1&code=AAAA-BBBB-CCCC"
	const settled = 100 // requests after which connecting is over
	kinds := []struct{ name, request string }{
		{"bodies", fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n%s", form)},
		{"bodies of GET", "GET /student/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"},
		{"headers", "GET /student/1 HTTP/1.1\r\nHost: x\r\nX: "},
		{"reads", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}, // of a page larger than the receive buffer
	}
	for _, front := range []string{"NGINX", "the API alone"} {
		at := address()
		startLimitedReplica(t, at, store)
		if front == "NGINX" {
			at = run(t, []string{at}, settings{env: map[string]string{"LB_BIND": host()}}).http
		}
		for _, kind := range kinds {
			for _, addresses := range []int{1, 100} {
				t.Run(fmt.Sprintf("%s, slow %s from %d", front, kind.name, addresses), func(t *testing.T) {
					before := times(t, at, asked)
					a := attack(t, at, kind.request, count, addresses)
					times(t, at, settled)
					during := times(t, at, asked)
					a.end()
					t.Logf("%d connections, %d opened: p50 %v before, %v meanwhile; p99 %v before, %v meanwhile",
						count, a.opened.Load(), before[asked/2], during[asked/2], before[asked*99/100], during[asked*99/100])
				})
			}
		}
	}
}

// attackers hold connections.
type attackers struct {
	stop   context.CancelFunc
	wait   sync.WaitGroup
	opened atomic.Int64
}

// attack opens so many connections from so many addresses, and a new one two seconds after one
// was closed. Each sends the request and then a byte every two seconds, and reads nothing.
func attack(t *testing.T, at, request string, count, addresses int) *attackers {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a := &attackers{stop: stop}
	t.Cleanup(a.end)
	for i := range count {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 7, 7, byte(1+i%addresses))}}
		a.wait.Go(func() {
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", at)
				if err == nil {
					_ = conn.(*net.TCPConn).SetReadBuffer(1 << 10)
					a.opened.Add(1)
					_, err = io.WriteString(conn, request)
				}
				for err == nil && pause(ctx) {
					_, err = io.WriteString(conn, "1")
				}
				if conn != nil {
					_ = conn.Close()
				}
				pause(ctx)
			}
		})
	}
	wait(t, "the attackers have connected", func() bool { return a.opened.Load() >= int64(count) })
	return a
}

// pause waits two seconds; false if the context ends first.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(2 * time.Second):
		return true
	}
}

func (a *attackers) end() {
	a.stop()
	a.wait.Wait()
}

// times is how long requests take, sorted. Each comes over a connection of its own and from an
// address that no attacker has; every one must be answered.
func times(t *testing.T, at string, count int) []time.Duration {
	t.Helper()
	all := make([]time.Duration, count)
	for i := range all {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 8, byte(rand.IntN(200)), byte(1+rand.IntN(200)))}}
		client := &http.Client{Timeout: deadline, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
		begin := time.Now()
		if got := ask(t, client, "GET http://"+at+"/", nil); got.status != http.StatusOK {
			t.Fatalf("others get status %d: %.200s", got.status, got.body)
		}
		all[i] = time.Since(begin)
	}
	slices.Sort(all)
	return all
}

// startLimitedReplica starts one as on results day, which believes the test's NGINX.
func startLimitedReplica(t *testing.T, at, store string) {
	t.Helper()
	t.Setenv(replicaProxy, host())
	startReplica(t, at, store, httpapi.Code)
}
