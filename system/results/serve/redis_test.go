package serve_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/sqlitestore"
)

// replica is a configuration of one of several services over a store and a Redis.
func replica(store, cache string, redis *servertest.RedisServer) serve.Config {
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Cache, cfg.Redis, cfg.Drain = store, cache, "redis://"+redis.Addr(), 0
	return cfg
}

// metric reads the sum of a service's series that begin with the text.
func metric(t *testing.T, s *running, series string) (sum float64) {
	t.Helper()
	_, text := get(t, s.admin, "/metrics")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, series) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// Two services share what either has loaded, and a correction reaches both.
func TestReplicasShareRedis(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	source := resultstest.Generator(t, 3, students)
	store := filled(t, source)[0]
	var replicas [2]*running
	for i := range replicas {
		cfg := replica(store, pagecache.MemoryRedis, redis)
		cfg.Access = httpapi.Open // with codes the service asks as well, see httpapi.Run
		replicas[i] = run(t, cfg)
		defer replicas[i].end(t)
	}
	student := source.Student(77)
	code, want := "X-Access-Code: "+student.Code, string(results.NewPage(&student).Body)

	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			if status, body := get(t, replicas[0].api, "/student/77", code); status != 200 || body != want {
				t.Errorf("got status %d and %q, want 200 and %q", status, body, want)
			}
		})
	}
	callers.Wait()
	if got := metric(t, replicas[0], "cache_loads_total"); got != 1 {
		t.Errorf("got %v loads for 32 requests at a time, want 1", got)
	}
	// A page is written behind the answer, and Redis may be too slow for one of them.
	id := 77
	until(t, func() bool {
		for i, s := range replicas {
			if status, _ := get(t, s.api, fmt.Sprintf("/student/%d", id)); status != 200 {
				t.Errorf("replica %d, student %d: got status %d, want 200", i, id, status)
			}
		}
		id = id%students + 1
		return metric(t, replicas[1], `cache_gets_total{cache="results",result="hit",tier="shared"}`) > 0
	})

	student.Marks[0] = (student.Marks[0] + 1) % (results.MaxMark + 1)
	if _, err := sqlitestore.Correct(t.Context(), strings.TrimPrefix(store, "sqlite:"), resultstest.Corrections(student)); err != nil {
		t.Fatal(err)
	}
	want = string(results.NewPage(&student).Body)
	corrected := time.Now()
	for i, s := range replicas {
		until(t, func() bool { _, body := get(t, s.api, "/student/77", code); return body == want })
		t.Logf("replica %d served the correction after %v", i, time.Since(corrected))
	}
}

// Redis is killed, comes back empty, is emptied and then stalls, all under load: no
// request fails, and the database is never asked by more than its pool at a time.
func TestRedisLostUnderLoad(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	url := servertest.Postgres(t).Database(t)
	source := resultstest.Generator(t, 3, students)
	if _, err := pgstore.Seed(t.Context(), url, source, nil); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{pagecache.Redis, pagecache.MemoryRedis} {
		cfg := replica(url, cache, redis)
		cfg.Access, cfg.Drain = httpapi.Open, 5*time.Second // in which a client sees that it is hung up on
		s := run(t, cfg)
		until(t, func() bool { status, _ := get(t, s.api, "/readyz"); return status == 200 })
		expected := bodies([]*results.Generator{source})[0]
		var answered atomic.Int64
		var slowest atomic.Int64
		ask := func() check {
			began := time.Now()
			return func(id int64, body []byte) error {
				answered.Add(1)
				for took := int64(time.Since(began)); ; {
					most := slowest.Load()
					if took <= most || slowest.CompareAndSwap(most, took) {
						break
					}
				}
				if string(body) != expected[id] {
					return fmt.Errorf("id %d: got %q, want %q", id, body, expected[id])
				}
				return nil
			}
		}
		var clients sync.WaitGroup
		failures := make(chan error, 16)
		for range cap(failures) {
			clients.Go(func() {
				if err := client(s.api, ask); err != nil {
					failures <- err
				}
			})
		}
		load := func(what string) {
			t.Helper()
			until(t, func() func() bool {
				enough := answered.Load() + 1000
				return func() bool { return answered.Load() >= enough || len(failures) > 0 }
			}())
			t.Logf("%s, %s: slowest %v", cache, what, time.Duration(slowest.Swap(0)))
		}
		load("all well")
		redis.Kill()
		load("redis killed")
		redis.Start()
		until(t, func() bool { return metric(t, s, "cache_redis_breaker_open{") == 0 })
		load("redis back, empty")
		if cache == pagecache.Redis {
			until(t, func() bool { return redis.Command("DBSIZE") != "0" })
		}
		redis.Flush()
		load("redis flushed")
		redis.Pause()
		load("redis stalls")
		redis.Resume()
		load("redis back")
		s.end(t)
		clients.Wait()
		close(failures)
		for err := range failures {
			t.Errorf("cache %s: %v", cache, err)
		}
	}
}

// With the database gone, each page that was preloaded is served by each replica.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	redis, server := servertest.Redis(t), servertest.Postgres(t)
	url := server.Database(t)
	source := resultstest.Generator(t, 3, students)
	if _, err := pgstore.Seed(t.Context(), url, source, nil); err != nil {
		t.Fatal(err)
	}
	db, err := pgstore.OpenSource(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if written, err := pagecache.Preload(t.Context(), "redis://"+redis.Addr(), db, nil); err != nil || written != students {
		t.Fatalf("preload: %d written, %v", written, err)
	}
	var replicas []*running
	for _, cache := range []string{pagecache.Redis, pagecache.MemoryRedis} {
		cfg := replica(url, cache, redis)
		cfg.Limits = nil
		s := run(t, cfg)
		defer s.end(t)
		until(t, func() bool { status, _ := get(t, s.api, "/readyz"); return status == 200 }) // it has found the database
		replicas = append(replicas, s)
	}
	server.Kill()
	for _, s := range replicas {
		for id := int64(1); id <= students; id += 7 {
			student := source.Student(id)
			until(t, func() bool { // on a busy machine Redis may be too slow for one of them
				status, body := get(t, s.api, fmt.Sprintf("/student/%d", id), "X-Access-Code: "+student.Code)
				if want := string(results.NewPage(&student).Body); status == 200 && body != want || status != 200 && status != 503 {
					t.Fatalf("student %d: got status %d and %q, want 200 and %q", id, status, body, want)
				}
				return status == 200
			})
		}
		if status, _ := get(t, s.api, fmt.Sprintf("/student/%d?code=x", students+1)); status != 503 {
			t.Errorf("what is in no cache: got status %d, want 503", status)
		}
		if status, _ := get(t, s.api, "/readyz"); status != 200 {
			t.Errorf("/readyz: got status %d, want 200: there is something to serve", status)
		}
	}
}

// A service that starts before its database is not ready, answers, and serves when the
// database has come.
func TestStartsBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	redis, server := servertest.Redis(t), servertest.Postgres(t)
	url := server.Database(t)
	source := resultstest.Generator(t, 3, students)
	if _, err := pgstore.Seed(t.Context(), url, source, nil); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	redis.Kill() // neither is there
	student := source.Student(77)
	for _, cache := range []string{pagecache.None, pagecache.MemoryRedis} {
		s := run(t, replica(url, cache, redis))
		defer s.end(t)
		defer func() {
			until(t, func() bool { status, _ := get(t, s.api, "/readyz"); return status == 200 })
			if status, _ := answered(t, s.api, "/student/77", "X-Access-Code: "+student.Code); status != 200 {
				t.Errorf("cache %s, with the database: got status %d, want 200", cache, status)
			}
		}()
		for target, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/student/77?code=x": 503} {
			if status, _ := get(t, s.api, target, "X-Access-Code: "+student.Code); status != want {
				t.Errorf("cache %s, %s: got status %d, want %d", cache, target, status, want)
			}
		}
	}
	server.Start()
}

// Nothing but the date tells a known id from an unknown one, whatever tier answers.
func TestCachesTellNobodyWhoExists(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	store := filled(t, resultstest.Generator(t, 3, students))[0]
	s := run(t, replica(store, pagecache.MemoryRedis, redis))
	defer s.end(t)
	for range 3 {
		var answers [2]string
		for i, id := range []int{77, students + 1} {
			status, body := get(t, s.api, fmt.Sprintf("/student/%d", id), "X-Access-Code: WRONG-WRONG")
			answers[i] = fmt.Sprint(status, body)
		}
		if answers[0] != answers[1] || !strings.HasPrefix(answers[0], "404") {
			t.Errorf("known: %s, unknown: %s, want the same 404", answers[0], answers[1])
		}
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	store := filled(t, resultstest.Generator(t, 3, students))[0]
	cfg := replica(store, pagecache.Redis, redis)
	cfg.Access = httpapi.Open // as above
	s := run(t, cfg)
	defer s.end(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/cache", "", 200, `{"memory":"none","redis":"on"}`},
		{"PUT", "/cache/redis", "off\n", 200, `{"memory":"none","redis":"off"}`},
		{"PUT", "/cache/redis", "maybe", 400, "write on or off"},
		{"PUT", "/cache/redis", strings.Repeat("on", 100), 400, "write on or off"},
		{"PUT", "/cache/memory", "on", 409, "start it with one"},
		{"PUT", "/cache/disk", "on", 404, "/cache/memory or /cache/redis"},
		{"POST", "/cache/redis", "on", 405, "PUT /cache/memory"},
		{"PUT", "/cache", "on", 405, "GET /cache shows"},
		{"GET", "/cache", "", 200, `"redis":"off"`},
	} {
		status, body := send(t, c.method, "http://"+s.admin+c.path, c.body, authorized)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s %q: got status %d and %q, want %d and %q", c.method, c.path, c.body, status, body, c.status, c.want)
		}
	}
	get(t, s.api, "/student/77?code=x")
	if got := metric(t, s, `cache_gets_total{cache="results",result="miss",tier="shared"}`); got != 0 {
		t.Errorf("got %v look-ups in Redis while it is off, want 0", got)
	}
	if status, _ := send(t, "PUT", "http://"+s.admin+"/cache/redis", "on", authorized); status != 200 {
		t.Errorf("on again: got status %d, want 200", status)
	}
	get(t, s.api, "/student/78?code=x")
	if got := metric(t, s, `cache_gets_total{cache="results",result="miss",tier="shared"}`); got != 1 {
		t.Errorf("got %v look-ups in Redis after it is on again, want 1", got)
	}
}

// send sends a request with a body and returns the answer.
func send(t *testing.T, method, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}
