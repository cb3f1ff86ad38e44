package serve_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/forwarded"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/resultstest"
)

// guarded is a service with codes and limits over PostgreSQL and Redis, whose pages are
// all preloaded.
type guarded struct {
	*running
	redis    *servertest.RedisServer
	postgres *servertest.PostgresServer
	url      string
	source   *results.Generator
}

func startGuarded(t *testing.T, cache string) *guarded {
	t.Helper()
	g := &guarded{redis: servertest.Redis(t), postgres: servertest.Postgres(t), source: resultstest.Generator(t, 3, students)}
	g.url = g.postgres.Database(t)
	if _, err := pgstore.Seed(t.Context(), g.url, g.source, nil); err != nil {
		t.Fatal(err)
	}
	db, err := pgstore.OpenSource(t.Context(), g.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pagecache.Preload(t.Context(), "redis://"+g.redis.Addr(), db, nil); err != nil {
		t.Fatal(err)
	}
	limits := guard.DefaultConfig()
	cfg := replica(g.url, cache, g.redis)
	cfg.Limits = &limits
	if cfg.Proxies, err = forwarded.Parse("127.0.0.0/8"); err != nil {
		t.Fatal(err)
	}
	g.running = run(t, cfg)
	t.Cleanup(func() { g.end(t) })
	return g
}

// ask gives a code for an id from an address that nobody else has, and returns the
// answer without its date, and after which time it came.
func (g *guarded) ask(client *http.Client, id int64, code string) (answer string, took time.Duration, err error) {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s/student/%d", g.api, id), http.NoBody)
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("X-Access-Code", code)
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", rand.IntN(256), rand.IntN(256), rand.IntN(256)))
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	body, err := io.ReadAll(resp.Body)
	took = time.Since(began)
	_ = resp.Body.Close()
	resp.Header.Del("Date")
	return fmt.Sprint(resp.StatusCode, resp.Header, string(body)), took, err
}

// With the database and Redis in any state a wrong code is answered as an unknown id, and
// whose page is in a cache sees it.
func TestNobodyLearnsWhoExists(t *testing.T) {
	t.Parallel()
	for _, cache := range []string{pagecache.Redis, pagecache.MemoryRedis} {
		t.Run(cache, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, cache)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			same := func(status string) {
				t.Helper()
				until(t, func() bool { // the state of the service is noticed within seconds
					known, _, err1 := g.ask(client, 77, "WRONG-WRONG")
					unknown, _, err2 := g.ask(client, students+1+rand.Int64N(1e6), "WRONG-WRONG")
					if err1 != nil || err2 != nil {
						t.Fatal(err1, err2)
					}
					return known == unknown && strings.HasPrefix(known, status)
				})
			}
			opens := func(what string) {
				t.Helper()
				inTurn := 0
				until(t, func() bool { // on a busy machine who is asked may be too slow for one of them, and not for many
					page, _, err := g.ask(client, 77, g.source.Student(77).Code)
					if err != nil || !strings.HasPrefix(page, "200") && !strings.HasPrefix(page, "503") {
						t.Fatalf("%s: the right code got %s, %v", what, page, err)
					}
					if inTurn++; !strings.HasPrefix(page, "200") {
						inTurn = 0
					}
					return inTurn == 5
				})
			}
			same("404")
			opens("all is up")
			g.postgres.Kill()
			same("503")
			opens("the database is down")
			g.redis.Kill()
			same("503")
			if cache == pagecache.MemoryRedis {
				opens("both are down")
			}
			g.postgres.Start()
			same("404")
			opens("Redis is down")
		})
	}
}

// 2,000 wrong codes and 2,000 unknown ids in each state: neither times nor answers can be
// told apart by a Kolmogorov-Smirnov test at the level 0.001.
func TestTimesTellNobodyWhoExists(t *testing.T) {
	servertest.Large(t)
	const jammed = "look-ups queue and some are refused"
	down := func(g *guarded) (stop func()) { g.postgres.Kill(); return nil }
	for _, c := range []struct {
		name, cache string
		enter       func(g *guarded) (stop func())
	}{
		{"Redis and database up", pagecache.Redis, nil},
		{"memory, Redis and database up", pagecache.MemoryRedis, nil},
		{"Redis down", pagecache.Redis, func(g *guarded) func() { g.redis.Kill(); return nil }},
		{"memory, Redis down", pagecache.MemoryRedis, func(g *guarded) func() { g.redis.Kill(); return nil }},
		{"database down", pagecache.Redis, down},
		{"memory, database down", pagecache.MemoryRedis, down},
		{"memory, both down", pagecache.MemoryRedis, func(g *guarded) func() { g.redis.Kill(); return down(g) }},
		{jammed, pagecache.Redis, func(g *guarded) func() { return g.jam(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGuarded(t, c.cache)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for id := int64(1); id <= students; id++ {
				if page, _, err := g.ask(client, id, g.source.Student(id).Code); err != nil || !strings.HasPrefix(page, "200") {
					t.Fatal(page, err)
				}
			}
			if c.enter != nil {
				if stop := c.enter(g); stop != nil {
					defer stop()
				}
			}
			time.Sleep(25 * time.Second)
			askers := 8
			if c.name == jammed {
				askers = 128 // each answer takes seconds
			}
			refused := g.compare(t, askers)
			if c.name == jammed && refused == 0 {
				t.Error("no look-up was refused: this is not the state that was to be tested")
			}
		})
	}
}

// compare asks for known and unknown ids in random order, and returns how many of them were
// answered with status 503.
func (g *guarded) compare(t *testing.T, askers int) (refused int) {
	t.Helper()
	const asked = 2000
	var mu sync.Mutex
	var times [2][]float64
	answers := map[string]*[2]int{}
	order := make(chan int)
	var asking sync.WaitGroup
	for range askers {
		asking.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := range order {
				kind, id := i%2, 1+rand.Int64N(students)
				if kind == 1 {
					id += 1e9 + students*rand.Int64N(1e9)
				}
				answer, took, err := g.ask(client, id, "WRONG-WRONG")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				times[kind] = append(times[kind], took.Seconds())
				if answers[answer] == nil {
					answers[answer] = &[2]int{}
				}
				answers[answer][kind]++
				mu.Unlock()
			}
		})
	}
	for _, i := range rand.Perm(2 * asked) {
		order <- i
	}
	close(order)
	asking.Wait()
	critical := 1.95 * math.Sqrt(2.0/asked) // for 0.001
	d := kolmogorovSmirnov(times[0], times[1])
	t.Logf("D = %.4f, critical %.4f; medians %.2f and %.2f ms", d, critical, 1000*times[0][asked/2], 1000*times[1][asked/2])
	if d > critical {
		t.Errorf("times differ: D = %.4f, critical %.4f", d, critical)
	}
	for _, answer := range slices.Sorted(maps.Keys(answers)) {
		n := *answers[answer]
		if strings.HasPrefix(answer, "503") {
			refused += n[0] + n[1]
		}
		t.Logf("%d and %d: %.90s", n[0], n[1], answer)
		if math.Abs(float64(n[0]-n[1]))/asked > critical {
			t.Errorf("%d wrong codes and %d unknown ids got %s", n[0], n[1], answer)
		}
	}
	return refused
}

// kolmogorovSmirnov sorts both samples and returns the largest distance of their
// distribution functions.
func kolmogorovSmirnov(a, b []float64) (d float64) {
	slices.Sort(a)
	slices.Sort(b)
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x := min(a[i], b[j])
		for i < len(a) && a[i] == x {
			i++
		}
		for j < len(b) && b[j] == x {
			j++
		}
		d = max(d, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return d
}

// jam lets few look-ups through to the table, as many as the pool has connections in almost a
// second, and keeps more queueing for it: those who wait for too long are refused.
func (g *guarded) jam(t *testing.T) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var working sync.WaitGroup
	for range 2 { // one of them always waits: who looks up after that waits behind it
		working.Go(func() {
			conn, err := pgx.Connect(t.Context(), g.url)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(t.Context()) }()
			for {
				if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE results.students; SELECT pg_sleep(0.8); COMMIT"); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 64 {
		working.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
					_, _, _ = g.ask(client, 5e9+rand.Int64N(1e9), "WRONG-WRONG")
				}
			}
		})
	}
	return func() { close(done); working.Wait() }
}
