package serve

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/servertest"
	"loadstone/system/menu/menutest"
)

// A correction is seen through all eight proxies once it is confirmed, also when it races with
// fills: each menu is corrected, a quarter of them twice at a time, while two readers at each proxy
// ask for it. Nobody has asked for it before, and half of them are evicted from Redis again and
// again. Some corrections are deletions, and half-way Redis is lost and comes back empty.
//
// `make menu-corrections` runs it with 10,000 menus. The log says how soon corrections are seen.
// Everything is one program but for PostgreSQL, which syncs then, and Redis.
func TestCorrectionsRaceWithFills(t *testing.T) {
	t.Parallel()
	races, database := int64(200), servertest.Database
	if os.Getenv("LARGE") == "1" {
		// A write takes as long as it does where the database syncs.
		races, database = 10_000, func(t testing.TB) string { return servertest.Postgres(t, "fsync=on").Database(t) }
	}
	f := newField(t, database(t), races)
	began := time.Now()
	for id := int64(1); id <= races && !t.Failed(); id++ {
		if id != races/2 {
			f.race(id)
			continue
		}
		f.redis.Kill() // no write is under way
		var group sync.WaitGroup
		group.Go(func() { f.race(id) })
		f.redis.Start()
		group.Wait()
	}
	took := time.Since(began)
	untold := f.metric("menu_untold_total", "after")
	if f.stale > untold {
		t.Errorf("%d answers were stale, and Redis could not be told of %d corrections", f.stale, untold)
	}
	for deadline := time.Now().Add(time.Minute); f.metric("lookaside_changes_owed", "") > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("Redis is never told")
		}
	}
	for id := int64(1); id <= races && !t.Failed(); id++ {
		f.settled(id)
	}
	f.report(races, took)
}

// field is where corrections race with fills.
type field struct {
	t                *testing.T
	redis            *servertest.RedisServer
	evictor          rueidis.Client
	client           *http.Client
	servers, proxies []string
	admins           []string // of all of them

	seen, whole []time.Duration // for each correction, since it was confirmed and since it was sent
	answers     int             // of proxies
	stale       int             // menus of which somebody got a version that was not true any more
	stays       int
	refused     atomic.Int64 // attempts at corrections
}

// newField starts eight proxies with a Redis before two menu servers with a database of menus from 1 to n.
func newField(t *testing.T, database string, n int64) *field {
	t.Helper()
	f := &field{t: t, redis: servertest.Redis(t)}
	redis := "redis://" + f.redis.Addr()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token, cfg.Redis = fill(t, database, 1, n), token, redis
	for range 2 {
		api, admin, _ := serving(t, cfg)
		f.servers, f.admins = append(f.servers, api), append(f.admins, admin)
	}
	for range 8 {
		c := DefaultProxyConfig()
		c.Servers, c.Redis = f.servers, redis
		api, admin := proxying(t, c)
		f.proxies, f.admins = append(f.proxies, api), append(f.admins, admin)
	}
	var err error
	if f.evictor, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.evictor.Close)
	connections := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second} // servers keep them longer
	t.Cleanup(connections.CloseIdleConnections)
	f.client = &http.Client{Transport: connections, Timeout: time.Minute}
	return f
}

// answer is what one request came back with, and when.
type answer struct {
	began, ended time.Time
	status       int
	version      int64
	etag, body   string
}

// known reports whether the answer says what the menu is.
func (a answer) known() bool { return a.status/100 == 2 || a.status == http.StatusNotFound }

func (f *field) ask(method, url, body string) (a answer) {
	req, err := http.NewRequestWithContext(f.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		f.t.Error(err)
		return a
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	a.began = time.Now()
	res, err := f.client.Do(req)
	if err != nil {
		f.t.Errorf("%s %s: %v", method, url, err)
		return a
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if a.ended = time.Now(); err != nil {
		f.t.Errorf("%s %s: %v", method, url, err)
	}
	a.status, a.etag, a.body = res.StatusCode, res.Header.Get("ETag"), string(text)
	if a.version, err = strconv.ParseInt(res.Header.Get("X-Menu-Version"), 10, 64); err != nil && a.known() && method == http.MethodGet {
		f.t.Errorf("%s %s: status %d without a version: %s", method, url, a.status, text)
	}
	return a
}

// race corrects a menu, once or twice at a time, while it is being read.
func (f *field) race(id int64) {
	path := fmt.Sprint("/menu/", id)
	ctx, end := context.WithCancel(f.t.Context())
	var writers, readers, evicting sync.WaitGroup
	if id%2 == 0 { // fills go on; of the others the first race alone
		evicting.Go(func() {
			for ctx.Err() == nil {
				f.evictor.Do(ctx, f.evictor.B().Del().Key("menus:"+strconv.FormatInt(id, 10)).Build()) // fails while Redis is lost
				time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Millisecond))))
			}
		})
	}
	written := make(chan struct{})
	reads := make([][]answer, 2*len(f.proxies))
	for i := range reads {
		readers.Go(func() { reads[i] = f.read(f.proxies[i/2]+"/api"+path, written) })
	}
	corrections := make([]answer, 1+(id/2)%4/3)
	for i := range corrections {
		at := f.servers[rand.IntN(len(f.servers))] + path
		if rand.IntN(4) > 0 {
			at = f.proxies[rand.IntN(len(f.proxies))] + "/api" + path
		}
		writers.Go(func() {
			time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Millisecond))))
			corrections[i] = f.correct(id, at, rand.IntN(8) == 0)
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
	end()
	evicting.Wait()
	f.judge(id, corrections, reads)
}

// correct writes or deletes a menu, and again if that is refused, until it is confirmed.
func (f *field) correct(id int64, at string, gone bool) answer {
	m := menutest.Example(id, rand.Int64N(1000))
	body := string(m.AppendJSON(nil))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var a answer
		if gone {
			a = f.ask(http.MethodDelete, at, "")
		} else {
			a = f.ask(http.MethodPut, at, body)
		}
		if a.status < 300 || f.t.Failed() {
			return a
		}
		gone = false // it may have been after all
		f.refused.Add(1)
		if a.status != http.StatusServiceUnavailable && a.status != http.StatusNotFound || time.Now().After(deadline) {
			f.t.Errorf("%s: status %d: %s", at, a.status, a.body)
			return a
		}
	}
}

// read asks for a menu until it has been told it three times after all is written.
func (f *field) read(at string, written <-chan struct{}) (all []answer) {
	for left := 3; left > 0 && !f.t.Failed(); {
		after := 0
		select {
		case <-written:
			after = 1
		default:
		}
		all = append(all, f.get(at))
		left -= after
		time.Sleep(time.Duration(rand.Int64N(int64(time.Millisecond))))
	}
	return all
}

// get asks for a menu until the answer says what it is: there may be none while Redis is lost.
func (f *field) get(at string) (a answer) {
	for deadline := time.Now().Add(time.Minute); !a.known(); {
		if a = f.ask(http.MethodGet, at, ""); time.Now().After(deadline) || f.t.Failed() {
			break
		}
	}
	return a
}

// judge finds how soon each correction was seen, and what was stale.
func (f *field) judge(id int64, corrections []answer, reads [][]answer) {
	for _, all := range reads {
		f.answers += len(all)
	}
	stale := ""
	for _, c := range corrections {
		last := c.ended
		for _, all := range reads {
			since := c.ended // from when on all answers are this correction or a later one
			for i, a := range slices.Backward(all) {
				if a.version < c.version {
					if a.began.After(c.ended) {
						stale = fmt.Sprintf("menu %d, answer %d of %d: version %d was confirmed, and %v later somebody asked and got version %d",
							id, i, len(all), c.version, a.began.Sub(c.ended), a.version)
					}
					break
				}
				since = a.ended
			}
			if since.After(last) {
				last = since
			}
		}
		f.seen, f.whole = append(f.seen, last.Sub(c.ended)), append(f.whole, last.Sub(c.began))
	}
	if stale != "" {
		f.stale++
		f.t.Log(stale)
	}
}

// metric is the sum of a metric of all servers and proxies, with a label's value if it is not "".
func (f *field) metric(name, value string) (sum int) {
	pattern := regexp.MustCompile(`(?m)^` + name + `(?:\{.*\})? (\d+)$`)
	if value != "" {
		pattern = regexp.MustCompile(`(?m)^` + name + `\{.*"` + value + `".*\} (\d+)$`)
	}
	for _, admin := range f.admins {
		_, metrics := ask(f.t, "GET", admin+"/metrics", "")
		for _, found := range pattern.FindAllStringSubmatch(metrics, -1) {
			n, _ := strconv.Atoi(found[1])
			sum += n
		}
	}
	return sum
}

// settled wants what the database has, of every proxy, when all is quiet.
func (f *field) settled(id int64) {
	path := fmt.Sprint("/menu/", id)
	want := f.get(f.servers[0] + path)
	for i, p := range f.proxies {
		got := f.get(p + "/api" + path)
		if got.status != want.status || got.version != want.version || got.etag != want.etag {
			f.stays++
			f.t.Errorf("menu %d through proxy %d: got status %d, version %d and %s, which stays; want %d, %d and %s",
				id, i, got.status, got.version, got.body, want.status, want.version, want.body)
		}
	}
}

// report logs the figures. Speed is said and not judged: it is the machine's, too.
func (f *field) report(races int64, took time.Duration) {
	if len(f.seen) == 0 {
		f.t.Fatal("nothing was corrected")
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d races in %v: %d corrections, and %d attempts that were refused; %d answers of proxies, %d fills, and %d that were refused\n",
		races, took.Round(time.Second), len(f.seen), f.refused.Load(), f.answers, f.metric("lookaside_fills_total", "done"), f.metric("lookaside_fills_total", "refused"))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "seen through all eight after\tp50\tp99\tmax\t")
	p99 := times(table, "it was confirmed", f.seen)
	times(table, "it was sent", f.whole)
	_ = table.Flush()
	verdict := "met"
	if p99 > 50*time.Millisecond {
		verdict = "missed"
	}
	f.t.Logf("%s50 ms after the confirmation at p99: %s\n%d menus had stale answers that began after a confirmation, %d stay", &text, verdict, f.stale, f.stays)
}

// times writes a row and returns its p99.
func times(to io.Writer, what string, all []time.Duration) time.Duration {
	slices.Sort(all)
	p50, p99, most := all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	_, _ = fmt.Fprintf(to, "%s\t%.1f ms\t%.1f ms\t%.1f ms\t\n", what, p50.Seconds()*1e3, p99.Seconds()*1e3, most.Seconds()*1e3)
	return p99
}
