package nginx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/block/pause"
	"loadstone/block/servertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/serve"
	"loadstone/system/feed/serve/servetest"
	"loadstone/system/feed/snapshot"
	"loadstone/system/feed/snapshot/publish"
	"loadstone/system/feed/stores"
)

// victim are what makes the test binary a publisher that is killed: its store, its objects and their keys.
const victim = "FEED_VICTIM"

func TestMain(m *testing.M) {
	if of := strings.Split(os.Getenv(victim), "\n"); len(of) == 4 {
		runAsVictim(of[0], of[1], stores.Keys{Access: of[2], Secret: of[3]})
		return
	}
	os.Exit(m.Run())
}

// published is a feed that goes through all parts, from a store of posts to NGINX.
type published struct {
	system

	t       *testing.T
	s3      *servertest.S3Server
	store   string
	address string // of the edge
	stop    func() // ends the edge
}

// interval is the edge's, and how long NGINX keeps what does not change.
const interval = time.Second

func newPublished(t *testing.T) *published {
	t.Helper()
	p := &published{t: t, s3: servertest.S3(t), store: filled(t), address: servertest.Host() + ":8080"}
	p.system = startNGINX(t, p.address, servetest.Start(t, p.store, nil))
	return p
}

func (p *published) config() serve.PublisherConfig {
	c := serve.DefaultPublisherConfig()
	c.From, c.To, c.Keys, c.AdminListen = p.store, "s3:"+p.s3.URL+"/feed", p.keys(), "127.0.0.1:0"
	return c
}

func (p *published) keys() stores.Keys {
	return stores.Keys{Access: p.s3.AccessKey, Secret: p.s3.SecretKey}
}

// by has a publisher do something.
func (p *published) by(f func(ctx context.Context, by *publish.Publisher) (*snapshot.Snapshot, error)) (s *snapshot.Snapshot) {
	p.t.Helper()
	err := serve.Publish(p.t.Context(), p.config(), slog.New(slog.DiscardHandler), func(by *publish.Publisher) (err error) {
		s, err = f(p.t.Context(), by)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *published) publish() *snapshot.Snapshot {
	p.t.Helper()
	return p.by(func(ctx context.Context, by *publish.Publisher) (*snapshot.Snapshot, error) {
		return by.Once(ctx, snapshot.Options{})
	})
}

// startEdge starts the edge, which listens when it has something to serve.
func (p *published) startEdge() {
	p.t.Helper()
	c := serve.DefaultEdgeConfig()
	c.Listen, c.AdminListen, c.Drain = p.address, "127.0.0.1:0", 0
	c.From, c.Keys, c.Edge.Interval, c.Edge.Shared = p.config().To, p.keys(), interval, interval
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- serve.RunEdge(ctx, c, slog.New(slog.DiscardHandler)) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("the edge: %v", err)
		}
	})
	p.t.Cleanup(p.stop)
}

// get asks NGINX in a coding; the body is decoded.
func (p *published) get(path, coding string) (status int, body []byte) {
	p.t.Helper()
	transport := &http.Transport{DisableCompression: coding == ""} // else it asks for gzip and decodes it
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(context.WithoutCancel(p.t.Context()), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		p.t.Error(err)
		return 0, nil
	}
	body, err = io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		p.t.Error(err)
	}
	return response.StatusCode, body
}

// within waits until something is so, for a minute.
func (p *published) within(what string, so func() bool) time.Duration {
	p.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if so() {
			return time.Since(began)
		}
		if p.t.Failed() || time.Since(began) > time.Minute {
			p.t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (p *published) answers(path string) func() bool {
	return func() bool { status, _ := p.get(path, ""); return status == http.StatusOK }
}

// What is published is what is live, byte for byte. A post that was taken down is gone from every address that had it, in each
// coding, also of those who know hashes, and does not come back.
func TestTakenDownIsGoneBehindNGINX(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	s := p.publish()
	p.startEdge()
	p.within("the feed is published", p.answers("/feed/pages/1.json"))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if live, got := feedtest.Journey(t, client, p.url, feedtest.Ways()[2]), feedtest.Published(t, client, p.url); got != live {
		t.Errorf("published:\n%.500s\nlive:\n%.500s", got, live)
	}

	const post = 97 // it is pinned, too
	marks := [][]byte{fmt.Appendf(nil, `"id":%d,"media"`, post), fmt.Appendf(nil, `"post":%d,"published"`, post)}
	has := func(text []byte) bool { return bytes.Contains(text, marks[0]) || bytes.Contains(text, marks[1]) }
	addresses := []string{"/feed/whole/" + s.Manifest.Whole.SHA256}
	for part, body := range s.Parts() {
		if has(body) {
			addresses = append(addresses, "/feed/"+part.Page, "/feed/"+part.Name)
		}
	}
	if len(addresses) != 5 {
		t.Fatalf("it is at %q", addresses)
	}
	had := func() (all []string) {
		for _, at := range addresses {
			for _, coding := range []string{"", "gzip"} {
				if _, body := p.get(at, coding); has(body) {
					all = append(all, at+" "+coding)
				}
			}
		}
		return all
	}
	if all := had(); len(all) != 10 {
		t.Fatalf("it is seen at %q", all)
	}
	p.by(func(ctx context.Context, by *publish.Publisher) (*snapshot.Snapshot, error) {
		return by.TakeDown(ctx, post)
	})
	t.Logf("gone after %v, with an interval of %v", p.within("it is gone", func() bool { return len(had()) == 0 }), interval)
	for began := time.Now(); time.Since(began) < 3*interval; time.Sleep(interval / 10) {
		if all := had(); len(all) > 0 {
			t.Fatalf("it is back at %q", all)
		}
	}
	if status, _ := p.get(fmt.Sprintf("/posts/%d/author", post), ""); status != http.StatusNotFound {
		t.Errorf("live: got status %d", status)
	}
}

// Who has an earlier version gets the delta from it, as browsers ask for one, and who has none gets all of it: NGINX keeps the one
// for nobody, and the other once for all ways of asking.
func TestDeltasBehindNGINX(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	first := p.publish()
	p.put(1)
	second := p.publish()
	p.startEdge()
	at := "/feed/whole/" + second.Manifest.Whole.SHA256
	p.within("the feed is published", p.answers(at))
	hash := sha256.Sum256(first.Whole())
	dictionary := ":" + base64.StdEncoding.EncodeToString(hash[:]) + ":"
	for range 2 {
		for _, c := range []struct{ accept, dictionary, want string }{
			{"gzip, deflate, br, zstd, dcb, dcz", dictionary, "dcz"},
			{"gzip, deflate, br, zstd, dcb, dcz", "", "br"},
			{"gzip, deflate, br, zstd", dictionary, "br"},
			{"br", "", "br"},
			{"deflate,gzip", "", "gzip"},
			{"gzip;q=0.5, zstd", "", "zstd"},
			{"br;q=0, gzip", "", "gzip"},
			{"brotli", "", ""},
			{"", "", ""},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+at, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept-Encoding", c.accept)
			if c.dictionary != "" {
				request.Header.Set("Available-Dictionary", c.dictionary)
			}
			response, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close() // read to its end
			if got := response.Header.Get("Content-Encoding"); err != nil || response.StatusCode != http.StatusOK || got != c.want {
				t.Errorf("%+v: got status %d in %q, %v", c, response.StatusCode, got, err)
			}
			if c.want == "" && !bytes.Equal(body, second.Whole()) {
				t.Errorf("%+v: got %d other bytes", c, len(body))
			}
			if c.want == "dcz" {
				s, err := snapshot.Apply(first.Whole(), body, second.Manifest.Whole)
				if err != nil || !bytes.Equal(s.Whole(), second.Whole()) {
					t.Errorf("%+v: got %v", c, err)
				}
				t.Logf("%d bytes instead of %d", len(body), len(second.Whole()))
			}
		}
	}
}

// What an editor takes down while a publisher runs is gone, too, long before the next publication.
func TestEditorsTakeDownBehindNGINX(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	c := p.config()
	c.Every = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve.RunPublisher(ctx, c, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the publisher: %v", err)
		}
	})
	p.startEdge()
	has := func() bool {
		_, body := p.get("/feed/pages/1.json", "")
		return bytes.Contains(body, []byte(`"id":96,"media"`))
	}
	p.within("the feed is published", has)
	name, err := stores.Parse(p.store)
	if err != nil {
		t.Fatal(err)
	}
	db, err := name.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.(feed.Desk).Apply(t.Context(), feed.Change{Action: feed.TakenDown, Editor: "noor", Post: 96}, nil, feed.Condition{})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("gone after %v", p.within("it is gone", func() bool { return !has() }))
}

// S3 does not answer; the edge has ended; an edge that has just started finds no S3: what was published is served on, by whoever has
// it. Then all of it comes back, and with it what is new.
func TestPartsAreDownBehindNGINX(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	p.publish()
	p.startEdge()
	p.within("the feed is published", p.answers("/feed/pages/1.json"))
	_, want := p.get("/feed/pages/1.json", "")
	still := func(when string) {
		t.Helper()
		for began := time.Now(); time.Since(began) < 3*interval; time.Sleep(interval / 10) { // also when NGINX asks again
			if status, got := p.get("/feed/pages/1.json", ""); status != http.StatusOK || !bytes.Equal(got, want) {
				t.Fatalf("%s: got status %d and %.200s", when, status, got)
			}
		}
	}
	p.s3.Kill()
	still("S3 is down")
	if status, body := p.get("/feed/pages/2.json", ""); status != http.StatusOK { // NGINX has not
		t.Errorf("S3 is down: got status %d and %.200s", status, body)
	}
	p.stop()
	still("the edge is down")
	if status, body := p.get("/feed/pages/3.json", ""); status != http.StatusServiceUnavailable || !bytes.Contains(body, []byte(`"unavailable"`)) {
		t.Errorf("the edge is down: got status %d and %.200s", status, body)
	}
	p.startEdge()
	still("the edge has nothing to serve")
	p.stop()
	p.startEdge()
	p.s3.Start()
	p.within("the edge finds S3", p.answers("/feed/pages/3.json"))
	still("all is back")
	p.put(1)
	p.publish()
	p.within("what is new is seen", func() bool {
		_, body := p.get("/feed/pages/1.json", "")
		return bytes.Contains(body, []byte(`"title":"New 1"`))
	})
}

// put writes a post.
func (p *published) put(n int) {
	p.t.Helper()
	if err := put(p.t.Context(), p.store, n); err != nil {
		p.t.Fatal(err)
	}
}

func put(ctx context.Context, store string, n int) error {
	name, err := stores.Parse(store)
	if err != nil {
		return err
	}
	db, err := name.Open(ctx, nil)
	if err != nil {
		return err
	}
	// Later than all that is made up.
	e := feed.Entry{Post: feed.Post{ID: int64(1_000_000 + n), Published: 1_800_000_000_000 + int64(n), Title: fmt.Sprint("New ", n), Text: "New"}, Author: feed.Author{ID: 1, Name: "Noor"}}
	return errors.Join(db.Put(ctx, &e), db.Close())
}

// runAsVictim publishes a post more each time, until it is killed.
func runAsVictim(store, to string, keys stores.Keys) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // in case the test is killed
	defer cancel()
	c := serve.DefaultPublisherConfig()
	c.From, c.To, c.Keys, c.Keep = store, to, keys, 10*time.Second
	err := serve.Publish(ctx, c, slog.New(slog.DiscardHandler), func(by *publish.Publisher) error {
		for n := os.Getpid() * 1000; ctx.Err() == nil; n++ {
			err := put(ctx, store, n)
			if err == nil {
				_, err = by.Once(ctx, snapshot.Options{})
			}
			if err != nil && !pause.For(ctx, 10*time.Millisecond) { // S3 is killed, too
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// Two publishers publish into S3, and all three are killed at moments that nobody chooses. Readers behind NGINX, who check every hash,
// see whole versions, and none before one that they have seen.
func TestKilledPublishersBehindNGINX(t *testing.T) {
	t.Parallel()
	kills := 6
	if os.Getenv("LARGE") == "1" {
		kills = 100
	}
	p := newPublished(t)
	p.publish()
	p.startEdge()
	p.within("the feed is published", p.answers("/feed/pages/1.json"))
	var newest atomic.Uint64
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, coding := range []string{"", "gzip"} {
		readers.Go(func() { p.watch(ctx, coding, &newest) })
	}
	stop := func() { cancel(); readers.Wait() }
	defer stop()
	victims := [2]*process{}
	for n := range kills {
		for i := range victims {
			if victims[i] == nil || victims[i].hasEnded() {
				victims[i] = p.startVictim()
			}
		}
		before := newest.Load()
		p.within("a version that is new is read", func() bool { return newest.Load() > before })
		time.Sleep(time.Duration(n*37%100) * time.Millisecond)
		if n%3 == 2 { // with half of what is under way
			p.s3.Kill()
			p.s3.Start()
			continue
		}
		i := n % len(victims)
		victims[i].kill()
		victims[i] = nil
	}
	stop()
	t.Logf("%d kills, %d versions", kills, newest.Load())
}

// process is one that was started.
type process struct {
	*exec.Cmd

	ended chan struct{}
}

func (v *process) hasEnded() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

func (v *process) kill() {
	_ = v.Process.Kill() // if it has not ended by itself
	<-v.ended
}

func (p *published) startVictim() *process {
	p.t.Helper()
	v := exec.Command(os.Args[0])
	v.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%s\n%s", victim, p.store, p.config().To, p.s3.AccessKey, p.s3.SecretKey))
	v.Stderr = os.Stderr
	v.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // when the thread that started it ends
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // or Go might end it earlier
		err := v.Start()
		started <- err
		if err == nil {
			_ = v.Wait() // killed, or it has said why on its standard error
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatal(err)
	}
	victim := &process{v, ended}
	p.t.Cleanup(victim.kill)
	return victim
}

// watch reads versions until the context ends.
func (p *published) watch(ctx context.Context, coding string, newest *atomic.Uint64) {
	for last := uint64(0); pause.For(ctx, 20*time.Millisecond); {
		status, raw := p.get("/feed/manifest.json", coding)
		var outer struct {
			SHA256   string          `json:"sha256"`
			Manifest json.RawMessage `json:"manifest"`
		}
		var m snapshot.Manifest
		err := json.Unmarshal(raw, &outer)
		if err == nil {
			err = json.Unmarshal(outer.Manifest, &m)
		}
		if hash := sha256.Sum256(outer.Manifest); err == nil && hex.EncodeToString(hash[:]) != outer.SHA256 {
			err = errors.New("its hash is another")
		}
		if err != nil || status != http.StatusOK || m.Version < last {
			p.t.Errorf("after version %d: got %s, %d and %v", last, strconv.FormatUint(m.Version, 10), status, err)
			return
		}
		last = m.Version
		status, whole := p.get("/feed/whole/"+m.Whole.SHA256, coding)
		if status == http.StatusNotFound {
			continue // versions come faster here than caches forget
		}
		s, err := snapshot.Parse(whole, m.Whole.SHA256)
		if err != nil || s.Manifest.Version != m.Version {
			p.t.Errorf("version %d: got status %d, %v", m.Version, status, err)
			return
		}
		for now := newest.Load(); m.Version > now && !newest.CompareAndSwap(now, m.Version); now = newest.Load() {
		}
	}
}
