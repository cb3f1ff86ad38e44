package nginx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/block/smuggling"
	"loadstone/system/results/httpapi"
)

// balanced is NGINX before one real replica that wants codes.
func balanced(t *testing.T) *balancer {
	t.Helper()
	program(t)
	store, _ := published(t)
	at := address()
	startReplica(t, at, store, httpapi.Code)
	return run(t, []string{at}, settings{})
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	b := balanced(t)
	unknown := ""
	get := func(path string, want ...int) {
		t.Helper()
		status, body := smuggling.Ask(t, b.http, "GET "+path+" HTTP/1.1\r\nHost: results\r\nConnection: close\r\n\r\n")
		if !slices.Contains(want, status) {
			t.Errorf("%.80q: got status %d, want %v", path, status, want)
		}
		if status == 404 && strings.HasPrefix(path, "/student/") {
			if unknown == "" {
				unknown = body
			}
			if body != unknown {
				t.Errorf("%.80q: got %q, want the same as for any unknown id: %q", path, body, unknown)
			}
		}
	}
	for _, id := range []string{
		"1", "5?code=WRONG", "999999", "999999999999999999", "1?code=" + strings.Repeat("A", 129), "1?code=%27%20OR%201%3D1%20--", "1?code=%00%ff", "1?code=",
	} {
		get("/student/"+id, 404)
	}
	for _, id := range []string{
		"0", "-1", "+1", "007", "1.0", "1e3", "abc", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
		strings.Repeat("9", 500), "1%27%20OR%20%271%27%3D%271", "1;DROP%20TABLE%20results.student", "%31", "1%2e", "1%2f..%2f2",
		"%EF%BC%91", "1%0d%0aX-Injected:%201", "1/../2", "..%2f..%2fetc%2fpasswd", "$(id)", "{{7*7}}", "%25s%25n", "",
	} {
		get("/student/"+id, 400, 404)
	}
	for _, path := range []string{
		"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cwindows", "//student/1", "/student//1", "/.env", "/.git/config", "/metrics",
		"/debug/pprof/", "/stub_status", "/down.html", "/down.json", "/conf.d/results.conf", "/%00", "http://169.254.169.254/latest/meta-data/", "*", "/\x01",
	} {
		get(path, 400, 404)
	}
	get("/"+strings.Repeat("a", 3000), 404)
	get("/"+strings.Repeat("a", 5000), 414)
	const host = "Host: results\r\nConnection: close\r\n"
	for name, c := range map[string]struct {
		request string
		want    []int
	}{
		"a header of 20 kB":         {"GET /student/1 HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 20_000) + "\r\n\r\n", []int{400, 431}},
		"headers of 12 kB in all":   {"GET /student/1 HTTP/1.1\r\n" + host + strings.Repeat("X: "+strings.Repeat("x", 3000)+"\r\n", 4) + "\r\n", []int{400, 431}},
		"a thousand headers":        {"GET /student/1 HTTP/1.1\r\n" + host + strings.Repeat("X: 1\r\n", 1000) + "\r\n", []int{400, 404, 431}},
		"ten thousand headers":      {"GET /student/1 HTTP/1.1\r\n" + host + strings.Repeat("X: 1\r\n", 10_000) + "\r\n", []int{400, 431}},
		"a list of a hundred hops":  {"GET /student/1 HTTP/1.1\r\n" + host + "X-Forwarded-For: " + strings.Repeat("1.2.3.4, ", 100) + "x\r\n\r\n", []int{404}},
		"a large body":              {"POST / HTTP/1.1\r\n" + host + "Content-Length: 10000000\r\n\r\n" + strings.Repeat("x", 20_000), []int{413, 0}},
		"a negative length":         {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", []int{400}},
		"two lengths":               {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", []int{400}},
		"a length and chunks":       {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		"chunks that are none":      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", []int{413}},
		"a form of no known length": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", []int{413}},
		"a body on a GET":           {"GET /student/1 HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n", []int{413}},
		"a body on the form":        {"GET / HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n", []int{413}},
		"a body on a HEAD":          {"HEAD / HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n", []int{413}},
		"chunks on a GET":           {"GET /student/1 HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", []int{413}},
		"a body elsewhere":          {"POST /student/1 HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n", []int{413}},
		"a body of no bytes":        {"GET /student/1 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", []int{404}},
		"another encoding":          {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", []int{400, 501}},
		"no host":                   {"GET / HTTP/1.1\r\n\r\n", []int{400}},
		"a host that is none":       {"GET / HTTP/1.1\r\nHost: a/../b\r\nConnection: close\r\n\r\n", []int{400}},
		"another method":            {"DELETE /student/1 HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		"a method that is none":     {"BREW /student/1 HTTP/1.1\r\n" + host + "\r\n", []int{405, 400}},
		"a tunnel":                  {"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + host + "\r\n", []int{400, 405}},
		"a trace":                   {"TRACE / HTTP/1.1\r\n" + host + "\r\n", []int{405}},
		"no HTTP":                   {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400}},
		"HTTP/2 without TLS":        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 0}},
		"HTTP/9":                    {"GET / HTTP/9.0\r\n\r\n", []int{400, 505}},
		"a range":                   {"GET /student/1 HTTP/1.1\r\n" + host + "Range: bytes=" + strings.Repeat("0-1,", 500) + "0-1\r\n\r\n", []int{404}},
	} {
		status, _ := smuggling.Ask(t, b.http, c.request)
		if !slices.Contains(c.want, status) {
			t.Errorf("%s: got status %d, want %v", name, status, c.want)
		}
	}
	if status, _ := smuggling.Ask(t, b.https, "GET / HTTP/1.1\r\nHost: results\r\n\r\n"); status != 400 {
		t.Errorf("plain HTTP where TLS is spoken: got status %d, want 400", status)
	}
}

// memory is what NGINX's processes hold in bytes, pages that they share counted
// once each.
func (b *balancer) memory(tb testing.TB) (total int64) {
	tb.Helper()
	for _, pid := range b.master.Children() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
				n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					tb.Fatal(err)
				}
				total += n << 10
			}
		}
	}
	return total
}

// Who sends a request byte by byte, or a body where none is due, is cut off in a time that the
// bytes do not lengthen, and keeps nobody out meanwhile.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	b := balanced(t)
	var slow sync.WaitGroup
	requests := []string{
		"",
		"GET /student/1 HTTP/1.1\r\nHost: x\r\nX: ", // that never ends
		"GET /student/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
		"POST /student/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
	}
	for i := range 50 * len(requests) {
		slow.Go(func() {
			if err := trickle(b.http, requests[i%len(requests)], time.Second/4); err != nil {
				t.Error(err)
			}
		})
	}
	slow.Go(func() { // nothing comes behind the form's first bytes
		if err := trickle(b.http, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nid=", deadline); err != nil {
			t.Error(err)
		}
	})
	cut := make(chan struct{})
	go func() { defer close(cut); slow.Wait() }()
	for served := 0; ; served++ {
		if got := ask(t, nil, "GET http://"+b.http+"/student/1", nil); got.status != 404 {
			t.Fatalf("others get status %d: %s", got.status, got.body)
		}
		select {
		case <-cut:
			t.Logf("%d requests were answered meanwhile", served)
			return
		default:
		}
	}
}

// trickle sends a request and then a byte at a time until it is cut off.
func trickle(at, request string, every time.Duration) error {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	}()
	_, _ = io.WriteString(conn, request)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("%.60q and a byte at a time are waited for %v", request, deadline)
			}
			return nil
		case <-ticker.C:
			_, _ = io.WriteString(conn, "1")
		}
	}
}

// One address holds so many requests and no more, and nobody else is kept out: forms
// whose bodies come slowly, answers that are long in coming, streams of HTTP/2.
func TestRequestsOfOneAddress(t *testing.T) {
	t.Parallel()
	program(t)
	free := make(chan struct{})
	var held atomic.Int64
	upstream := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			held.Add(1)
			<-free
		}
		says(200, "x")(w, r)
	})
	for name, limits := range map[string]string{"with limits": "", "without limits": "off"} {
		b := run(t, []string{upstream.address}, settings{
			env: map[string]string{"RESULTS_LIMITS": limits}, replace: []string{"limit_conn under_way 500", "limit_conn under_way 6", "proxy_read_timeout 7s", "proxy_read_timeout 60s"},
		})
		attacker, before := from("127.0.0.7"), held.Load()
		var waiting sync.WaitGroup
		for i := range 6 {
			url := []string{"GET http://" + b.http, "GET https://" + b.https}[i%2] + "/held"
			waiting.Go(func() {
				if _, err := try(context.WithoutCancel(t.Context()), attacker, url, nil); err != nil {
					t.Error(err)
				}
			})
		}
		wait(t, "the requests are held", func() bool { return held.Load() == before+6 })
		for _, c := range []struct {
			url, accept, kind string
		}{
			{"GET http://" + b.http + "/student/1", "application/json", "application/json; charset=utf-8"},
			{"GET https://" + b.https + "/", "text/html", "text/html; charset=utf-8"},
		} {
			got := ask(t, attacker, c.url, nil, "Accept", c.accept)
			want := 429
			if limits == "off" {
				want = 200
			}
			if got.status != want || want == 429 && (got.header.Get("Content-Type") != c.kind || got.header.Get("Retry-After") == "" ||
				strings.Contains(c.kind, "json") && !strings.Contains(got.body, `"code":"rate_limited"`)) {
				t.Errorf("%s: one more: got status %d, %v, %.100q, want %d", name, got.status, got.header, got.body, want)
			}
			if got := ask(t, from("127.0.0.8"), c.url, nil); got.status != 200 {
				t.Errorf("%s: another address: got status %d, want 200", name, got.status)
			}
		}
		for range 6 {
			free <- struct{}{}
		}
		waiting.Wait()
		wait(t, "there is room again", func() bool { return ask(t, attacker, "GET http://"+b.http+"/student/1", nil).status == 200 })
	}
}

// Idle connections, more than NGINX takes: it closes some of them for those who
// ask something.
func TestIdleConnections(t *testing.T) {
	program(t) // not parallel: it needs the files
	store, _ := published(t)
	at := address()
	startReplica(t, at, store, httpapi.Code)
	b := run(t, []string{at}, settings{replace: []string{"worker_connections 16384", "worker_connections 4096"}})
	count := 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(min(limit.Cur, 1<<20)) * 3 / 4; most < count { // the rest is for the other tests
		t.Logf("%d connections, for that is how many files may be open", most)
		count = most
	}
	before := b.memory(t)
	conns := make([]net.Conn, 0, count)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range count {
		conn, err := net.Dial("tcp", b.http)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
		if i%2 == 0 { // half of them have asked before
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		if i%500 == 0 {
			if got := ask(t, nil, "GET http://"+b.http+"/student/1", nil); got.status != 404 {
				t.Fatalf("with %d connections: got status %d, %s", i, got.status, got.body)
			}
		}
	}
	for range 100 {
		if got := ask(t, nil, "GET http://"+b.http+"/student/1", nil); got.status != 404 {
			t.Fatalf("with all connections: got status %d, %s", got.status, got.body)
		}
	}
	grown := b.memory(t) - before
	t.Logf("%d connections: NGINX's workers have grown by %.1f MB to %.1f MB", count, float64(grown)/1e6, float64(before+grown)/1e6)
	if grown > 100<<20 {
		t.Errorf("NGINX's workers have grown by %d bytes", grown)
	}
}
