package nginx_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/system/results/httpapi"
)

// BenchmarkNginx says what NGINX costs for a request, in microseconds of
// processor time, in several configurations side by side. Three replicas
// answer a student's result, 330 bytes of JSON, or one fake answers a page of
// 4.5 kB, the one that says that the service is down.
//
//	go test -run - -bench Nginx -benchtime 20000x -count 6 ./system/results/nginx
func BenchmarkNginx(b *testing.B) {
	program(b)
	store, _ := published(b)
	at := []string{address(), address(), address()}
	for _, a := range at {
		startReplica(b, a, store, httpapi.Open)
	}
	page, err := os.ReadFile("html/down.html")
	if err != nil {
		b.Fatal(err)
	}
	pages := []string{startFake(b, says(200, string(page), "Content-Type", "text/html; charset=utf-8", "Content-Length", strconv.Itoa(len(page)))).address}
	on, off := map[string]string{"RESULTS_GZIP": "on"}, map[string]string{"RESULTS_GZIP": "off"}
	small := []string{"gzip_min_length 1400", "gzip_min_length 20"}
	for _, c := range []struct {
		name     string
		replicas []string
		path     string
		settings settings
	}{
		{"json/kept-connections", at, "/student/%d", settings{env: off}},
		{"json/new-connections", at, "/student/%d", settings{env: off, replace: []string{"keepalive 256;", "", "keepalive_timeout 60s;", "", "keepalive_requests 1000000;", ""}}},
		{"json/edge-cache", at, "/student/%d", settings{env: map[string]string{"RESULTS_GZIP": "off", "EDGE_CACHE": "1h"}}},
		{"json/gzip", at, "/student/%d", settings{env: on}},
		{"json/gzip-of-all", at, "/student/%d", settings{env: on, replace: small}},
		{"page/plain", pages, "/?%d", settings{env: off}},
		{"page/gzip-1", pages, "/?%d", settings{env: on}},
		{"page/gzip-6", pages, "/?%d", settings{env: on, replace: []string{"gzip_comp_level 1", "gzip_comp_level 6"}}},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, run(b, c.replicas, c.settings), c.path) })
	}
}

// measure sends b.N requests over eight connections.
func measure(b *testing.B, lb *balancer, path string) {
	client := &http.Client{Timeout: deadline, Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true}}
	var next, size atomic.Int64
	var all sync.WaitGroup
	before, errBefore := lb.master.CPU()
	b.ResetTimer()
	for range 8 {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+lb.http+fmt.Sprintf(path, 1+n%students), http.NoBody)
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Accept-Encoding", "gzip")
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				got, err := io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("status %d, %v", resp.StatusCode, err)
				}
				size.Add(got)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	after, errAfter := lb.master.CPU()
	if err := errors.Join(errBefore, errAfter); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(size.Load())/float64(b.N), "bytes/op")
}
