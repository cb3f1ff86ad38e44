package serve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
)

// The service over a database that goes away and comes back: 503 with Retry-After
// meanwhile, not ready unless there is a cache, no crash, and no password in the
// log.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := strings.Replace(server.Database(t), "postgres@", "postgres:secret@", 1)
	source := resultstest.Generator(t, 3, students)
	if _, err := pgstore.Seed(t.Context(), url, source, nil); err != nil {
		t.Fatal(err)
	}
	services := map[string]*running{}
	for _, cache := range []string{pagecache.None, pagecache.Memory} {
		cfg := serve.DefaultConfig()
		cfg.Store, cfg.Cache, cfg.Drain = url, cache, 0
		services[cache] = run(t, cfg)
		defer services[cache].end(t)
	}
	student := source.Student(77)
	code := "X-Access-Code: " + student.Code
	want := string(results.NewPage(&student).Body)
	for cache, s := range services {
		if status, body := answered(t, s.api, "/student/77", code); status != 200 || body != want {
			t.Errorf("cache %s: got status %d and %q, want 200 and %q", cache, status, body, want)
		}
		if status, _ := answered(t, s.api, fmt.Sprintf("/student/%d?code=x", students+1)); status != 404 {
			t.Errorf("cache %s, unknown id: got status %d, want 404", cache, status)
		}
		if _, metrics := get(t, s.admin, "/metrics"); !strings.Contains(metrics, `results_postgres_queries_total{outcome="found"} 1`) {
			t.Errorf("cache %s: /metrics does not count the query", cache)
		}
		if logs := s.logs.String(); strings.Contains(logs, "secret") || !strings.Contains(logs, "postgres:xxxxx@") {
			t.Errorf("cache %s: the log shows the password, or no address: %s", cache, logs)
		}
	}

	server.Kill()
	until(t, func() bool { status, _ := get(t, services[pagecache.None].api, "/readyz"); return status == 503 })
	if status, _ := get(t, services[pagecache.None].api, "/student/77", code); status != 503 {
		t.Errorf("without the database: got status %d, want 503", status)
	}
	cached := services[pagecache.Memory]
	if status, body := get(t, cached.api, "/student/77", code); status != 200 || body != want {
		t.Errorf("cached, without the database: got status %d and %q, want 200", status, body)
	}
	if status, _ := get(t, cached.api, "/readyz"); status != 200 {
		t.Errorf("readiness with a cache: got status %d, want 200", status)
	}

	server.Start()
	for _, s := range services {
		until(t, func() bool { status, _ := get(t, s.api, "/readyz"); return status == 200 })
		until(t, func() bool { status, body := get(t, s.api, "/student/77", code); return status == 200 && body == want })
	}
}

// until polls, for long enough on a busy machine.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that within a minute")
		}
	}
}
