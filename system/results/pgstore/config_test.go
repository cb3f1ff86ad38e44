package pgstore

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"loadstone/block/postgres"
	"loadstone/block/servertest"
	"loadstone/system/results/resultstest"
)

func TestConfigNamesEveryProblem(t *testing.T) {
	t.Parallel()
	cfg := config("postgres://localhost/x")
	if err := cfg.Validate(); err != nil {
		t.Errorf("defaults: got %v, want nil", err)
	}
	err := Config{Config: postgres.Config{URL: "mysql://x"}}.Validate()
	for _, want := range []string{
		"postgres://USER@HOST", "connections is 0", "acquire timeout is 0s", "query timeout is 0s",
		"check interval is 0s", "statement timeout is 0s", "no metrics registerer",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
	cfg.StatementTimeout = cfg.QueryTimeout
	if err := cfg.Validate(); err == nil {
		t.Error("a statement timeout as long as the query's: got nil, want an error")
	}
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("Open without a configuration: got nil, want an error")
	}
}

// metricsOf scrapes a registry: the sample lines of our metrics.
func metricsOf(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	text, err := io.ReadAll(recorder.Body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "results_postgres_") && !strings.Contains(line, "_bucket") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	url := filled(t, resultstest.Generator(t, 1, 10))
	cfg := config(url)
	cfg.Connections = 3
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	store := open(t, cfg)
	poll(t, "full pool", func() bool { return store.stat().IdleConns() == 3 })
	before := len(metricsOf(t, registry))
	for id := range int64(5) { // 0 is nobody
		_, _ = store.Lookup(t.Context(), id)
	}
	execute(t, url, "ALTER TABLE results.students RENAME TO gone")
	_, _ = store.Lookup(t.Context(), 1)
	lines := metricsOf(t, registry)
	for _, want := range []string{
		`results_postgres_queries_total{outcome="found"} 4`,
		`results_postgres_queries_total{outcome="not_found"} 1`,
		`results_postgres_queries_total{outcome="failed"} 1`,
		`results_postgres_queries_total{outcome="unavailable"} 0`,
		`results_postgres_queries_total{outcome="abandoned"} 0`,
		`results_postgres_query_duration_seconds_count 6`,
		`results_postgres_pool_connections{state="idle"} 3`,
		`results_postgres_pool_connections{state="in_use"} 0`,
		`results_postgres_pool_max_connections 3`,
		`results_postgres_pool_abandoned_waits_total 0`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for _, name := range []string{"waits_total", "wait_seconds_total", "acquires_total", "opened_connections_total"} {
		if !strings.Contains(strings.Join(lines, "\n"), "results_postgres_pool_"+name+" ") {
			t.Errorf("no results_postgres_pool_%s", name)
		}
	}
	if len(lines) != before {
		t.Errorf("got %d series after look-ups, want %d as before", len(lines), before)
	}
	if _, err := Open(t.Context(), cfg); err == nil {
		t.Error("a second store on one registry: got nil, want an error")
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if lines := metricsOf(t, registry); len(lines) > 0 {
		t.Errorf("after Close: got %v, want no series", lines)
	}
}

// TestReadyAsksNothing: however often readiness is asked for, the database is not.
func TestReadyAsksNothing(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := server.Database(t)
	fill(t, url, resultstest.Generator(t, 1, 10))
	store := open(t, config(url))
	acquired := store.stat().AcquireCount()
	for range 10_000 {
		if !store.Ready() {
			t.Fatal("not ready")
		}
	}
	if got := store.stat().AcquireCount(); got != acquired {
		t.Errorf("got %s", fmt.Sprint(got-acquired, " connections used, want none"))
	}
}
