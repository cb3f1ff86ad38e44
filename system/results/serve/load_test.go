package serve_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/stores"
)

// client asks for random students over one connection at a time until a new
// connection is refused. It calls ask before each request, and checks the answer
// with what that returned.
func client(addr string, ask func() (ok check)) error {
	for {
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		err = converse(conn, ask)
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
}

// check checks an answer.
type check func(id int64, body []byte) error

func converse(conn net.Conn, ask func() (ok check)) error {
	br := bufio.NewReader(conn)
	for {
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return fmt.Errorf("deadline: %w", err)
		}
		ok := ask()
		id := 1 + rand.Int64N(students)
		if _, err := fmt.Fprintf(conn, "GET /student/%d HTTP/1.1\r\nHost: x\r\n\r\n", id); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("read body: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("id %d: status %d: %s", id, resp.StatusCode, body)
		}
		if err := ok(id, body); err != nil {
			return err
		}
		if resp.Close {
			return nil
		}
	}
}

// New snapshots are published under load, then the service is stopped under
// load. Every request is answered, each answer is whole and of one snapshot, and
// none is of an old one after the switch, although the cache keeps pages longer
// than the test lasts.
func TestSwitchesAndStopsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, cache := range []string{pagecache.None, pagecache.Memory, pagecache.Redis, pagecache.MemoryRedis} {
		t.Run("cache "+cache, func(t *testing.T) {
			t.Parallel()
			var redis string
			if strings.Contains(cache, pagecache.Redis) {
				redis = "redis://" + servertest.Redis(t).Addr()
			}
			const generations = 3
			sources := make([]*results.Generator, 0, generations)
			for seed := range uint64(generations) {
				sources = append(sources, resultstest.Generator(t, 100+seed, students))
			}
			path := filepath.Join(t.TempDir(), "results.snapshot")
			if err := snapshot.Build(t.Context(), path, sources[0], nil); err != nil {
				t.Fatal(err)
			}
			cfg := serve.DefaultConfig()
			cfg.Store, cfg.Cache, cfg.Access = stores.Snapshot+":"+path, cache, httpapi.Open
			cfg.Redis, cfg.CacheMaxAge, cfg.Drain = redis, time.Hour, 5*time.Second // in which a client sees that it is hung up on
			s := run(t, cfg)

			expected := bodies(sources)
			var oldest, answered atomic.Int64 // the oldest generation that may still be served
			ask := func() check {
				from := oldest.Load() // before the request is sent
				return func(id int64, body []byte) error {
					answered.Add(1)
					for g := generations - 1; g >= int(from); g-- {
						if string(body) == expected[g][id] {
							return nil
						}
					}
					return fmt.Errorf("id %d: got %q, of no generation from %d on", id, body, from)
				}
			}
			var clients sync.WaitGroup
			failures := make(chan error, 8)
			for range cap(failures) {
				clients.Go(func() {
					if err := client(s.api, ask); err != nil {
						failures <- err
					}
				})
			}
			load := func(n int64) {
				t.Helper()
				until := answered.Load() + n
				for deadline := time.Now().Add(2 * time.Minute); answered.Load() < until; time.Sleep(time.Millisecond) {
					if len(failures) > 0 || time.Now().After(deadline) {
						t.Fatalf("got %d answers and %d failures, want %d answers", answered.Load(), len(failures), until)
					}
				}
			}
			load(500)
			for g := 1; g < generations; g++ {
				if err := snapshot.Build(t.Context(), path, sources[g], nil); err != nil {
					t.Fatal(err)
				}
				if to := <-s.switched; to != sources[g].Meta() {
					t.Errorf("switched to %+v, want %+v", to, sources[g].Meta())
				}
				oldest.Store(int64(g))
				load(600)
			}
			s.end(t)
			clients.Wait()
			close(failures)
			for err := range failures {
				t.Errorf("client: %v", err)
			}
			if got := s.logs.String(); strings.Count(got, "new data set served") != generations-1 || strings.Contains(got, "level=ERROR") {
				t.Errorf("got log:\n%s\nwant %d switches and no error", got, generations-1)
			}
		})
	}
}

// bodies are the expected answers of each source by id.
func bodies(sources []*results.Generator) []map[int64]string {
	all := make([]map[int64]string, 0, len(sources))
	for _, source := range sources {
		of := map[int64]string{}
		for id := int64(1); id <= students; id++ {
			student := source.Student(id)
			of[id] = string(results.NewPage(&student).Body)
		}
		all = append(all, of)
	}
	return all
}
