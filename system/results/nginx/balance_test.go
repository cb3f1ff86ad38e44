package nginx_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/system/results/httpapi"
)

func TestReplicasShareTheLoad(t *testing.T) {
	t.Parallel()
	program(t)
	replicas := make([]*fake, 3)
	at := make([]string, 3)
	for i := range replicas {
		replicas[i] = startFake(t, says(200, "x"))
		at[i] = replicas[i].address
	}
	b := run(t, at, settings{})
	const requests = 300
	for range requests {
		if got := ask(t, nil, "GET http://"+b.http+"/student/1", nil); got.status != 200 {
			t.Fatalf("got status %d", got.status)
		}
	}
	for i, r := range replicas {
		if got := r.requests.Load(); got < requests/4 {
			t.Errorf("replica %d got %d of %d requests", i, got, requests)
		}
	}
}

// crowd asks for students without a pause until it is told to stop.
type crowd struct {
	stop     chan struct{}
	wait     sync.WaitGroup
	requests atomic.Int64
	failed   atomic.Int64
	first    atomic.Pointer[string] // failure
}

func (c *crowd) start(url string, ask func(client *http.Client, n int64) error) {
	c.stop = make(chan struct{})
	client := &http.Client{Timeout: deadline, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for range 8 {
		c.wait.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				if err := ask(client, c.requests.Add(1)); err != nil {
					c.failed.Add(1)
					text := fmt.Sprintf("%s: %v", url, err)
					c.first.CompareAndSwap(nil, &text)
				}
			}
		})
	}
}

func (c *crowd) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.wait.Wait()
	t.Logf("%d requests", c.requests.Load())
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed, the first: %s", n, c.requests.Load(), *c.first.Load())
	}
}

func TestKilledReplicaLosesNoRequest(t *testing.T) {
	t.Parallel()
	program(t)
	store, _ := published(t)
	at := []string{address(), address(), address()}
	replicas := make([]*replica, len(at))
	for i := range at {
		replicas[i] = startReplica(t, at[i], store, httpapi.Open)
	}
	b := run(t, at, settings{})
	var c crowd
	url := "http://" + b.http
	c.start(url, func(client *http.Client, n int64) error {
		got, err := try(t.Context(), client, "GET "+fmt.Sprintf("%s/student/%d", url, 1+n%students), nil)
		if err == nil && got.status != 200 {
			err = fmt.Errorf("status %d: %.100s", got.status, got.body)
		}
		return err
	})
	pass := func(more int64) {
		until := c.requests.Load() + more
		wait(t, "more requests have been made", func() bool { return c.requests.Load() >= until })
	}
	pass(500)
	for i := range replicas { // one after the other, as an update would
		replicas[i].Kill()
		pass(1000)
		replicas[i] = startReplica(t, at[i], store, httpapi.Open)
		// NGINX takes back who has refused twice after a second, and counts in whole ones. If the two others are gone
		// before that, an attempt at each of them and at one of the spare ones may be all three.
		takenBack := time.After(2100 * time.Millisecond)
		pass(1000)
		<-takenBack
	}
	// A stop that is asked for loses nothing either.
	replicas[0].Stop()
	pass(1000)
	// With one replica left, which has taken over for the others in time.
	replicas[1].Kill()
	pass(1000)
	c.end(t)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	program(t)
	for name, c := range map[string]struct {
		method, path string
		alive        int // of three replicas
		status       int
		most         int64 // attempts
	}{
		"GET, one dies":             {"GET", "/student/1", 2, 200, 2},
		"GET, two die":              {"GET", "/student/1", 1, 200, 3},
		"GET, all die":              {"GET", "/student/1", 0, 503, 3},
		"HEAD, two die":             {"HEAD", "/student/1", 1, 200, 3},
		"the filled form, one dies": {"POST", "/", 2, 200, 2},
		"the filled form, all die":  {"POST", "/", 0, 503, 2},
		"the form itself, all die":  {"GET", "/", 0, 503, 2},
		"another POST, all die":     {"POST", "/student/1", 0, 503, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all atomic.Int64
			at := make([]string, 3)
			for i := range at {
				handler := http.HandlerFunc(dies)
				if i >= len(at)-c.alive { // the last ones, so that the first attempt fails
					handler = says(200, "x")
				}
				at[i] = startFake(t, func(w http.ResponseWriter, r *http.Request) { all.Add(1); handler(w, r) }).address
			}
			b := run(t, at, settings{})
			form := "" // nothing else has a body
			if c.method == "POST" && c.path == "/" {
				form = "id=1&code=x"
			}
			got := ask(t, nil, c.method+" http://"+b.http+c.path, strings.NewReader(form))
			if n := all.Load(); got.status != c.status || n > c.most || n < 1 || c.status == 503 && n != c.most {
				t.Errorf("got status %d after %d attempts, want %d after %d", got.status, n, c.status, c.most)
			}
		})
	}
}

// What a replica answers is the answer, and no reason to ask another.
func TestRefusalsArePassedOnOnce(t *testing.T) {
	t.Parallel()
	program(t)
	for _, status := range []int{400, 403, 404, 429, 431, 500, 503} {
		var replicas []*fake
		var at []string
		for range 3 {
			f := startFake(t, says(status, "as it was said", "Retry-After", "7"))
			replicas, at = append(replicas, f), append(at, f.address)
		}
		b := run(t, at, settings{})
		for _, method := range []string{"GET", "POST"} {
			got := ask(t, nil, method+" http://"+b.http+"/", strings.NewReader(""))
			if got.status != status || got.body != "as it was said" || got.header.Get("Retry-After") != "7" {
				t.Errorf("%s, %d: got status %d, %q, %v", method, status, got.status, got.body, got.header)
			}
		}
		total := int64(0)
		for _, f := range replicas {
			total += f.requests.Load()
		}
		if total != 2 {
			t.Errorf("%d: the replicas were asked %d times for 2 requests", status, total)
		}
	}
}

func TestReplicasLearnWhoAsks(t *testing.T) {
	t.Parallel()
	program(t)
	upstream := startFake(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s|%s|%s", r.Header.Values("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"), strings.Split(r.RemoteAddr, ":")[0])
	})
	b := run(t, []string{upstream.address}, settings{env: map[string]string{"LB_BIND": host()}})
	for given, want := range map[string]string{
		"":        "[127.0.0.1]|http|" + host(),
		"1.2.3.4": "[1.2.3.4, 127.0.0.1]|http|" + host(), // the last entry is the one that counts
	} {
		headers := []string{"X-Forwarded-Proto", "gopher"}
		if given != "" {
			headers = append(headers, "X-Forwarded-For", given)
		}
		got := ask(t, nil, "GET http://"+b.http+"/student/1", nil, headers...)
		if got.body != want {
			t.Errorf("X-Forwarded-For %q: got %s, want %s", given, got.body, want)
		}
	}
}

// A replica that hangs delays a request, and loses none.
func TestHangingReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	program(t)
	free := make(chan struct{})
	hangs := startFake(t, func(http.ResponseWriter, *http.Request) { <-free })
	t.Cleanup(func() { close(free) })
	answers := startFake(t, says(200, "x"))
	b := run(t, []string{hangs.address, answers.address}, settings{replace: []string{"proxy_read_timeout 7s", "proxy_read_timeout 3s", "proxy_next_upstream_timeout 8s", "proxy_next_upstream_timeout 60s"}})
	for range 6 {
		begin := time.Now()
		if got := ask(t, nil, "GET http://"+b.http+"/student/1", nil); got.status != 200 {
			t.Errorf("got status %d after %v", got.status, time.Since(begin))
		}
	}
	if n := hangs.requests.Load(); n < 1 || n > 5 {
		t.Errorf("the replica that hangs got %d of 6 requests; it should have been left out", n)
	}
}
