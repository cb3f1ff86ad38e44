package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

const keyText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// history is a log in memory, whose oldest messages can be dropped.
type history struct {
	mu       sync.Mutex
	messages []Message
	dropped  int
}

func (h *history) add(key string, version int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := fmt.Sprintf("%s_%d", key, version)
	h.messages = append(h.messages, Message{ID: id, Key: key, Cursor: fmt.Sprintf("%09d", len(h.messages)+1), At: time.Now(), Body: []byte(`{"id":"` + id + `"}`)})
}

func (h *history) After(_ context.Context, cursor string, limit int) ([]Message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, _ := strconv.Atoi(cursor)
	rest := h.messages[max(n, h.dropped):]
	return slices.Clone(rest[:min(limit, len(rest))]), nil
}

func (h *history) End(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%09d", len(h.messages)), nil
}

// places are in memory, and can fail.
type places struct {
	mu     sync.Mutex
	texts  map[string][]byte
	broken bool
}

func newPlaces() *places { return &places{texts: map[string][]byte{}} }

func (p *places) Load(_ context.Context, endpoint string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return nil, errors.New("broken")
	}
	return p.texts[endpoint], nil
}

func (p *places) Swap(_ context.Context, endpoint string, old, place []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return errors.New("broken")
	}
	if !bytes.Equal(old, p.texts[endpoint]) {
		return ErrTaken
	}
	p.texts[endpoint] = place
	return nil
}

// got is one request.
type got struct {
	host, id, body, signature string
	at                        time.Time
}

// receivers answer requests without a network.
type receivers struct {
	mu       sync.Mutex
	requests []got
	failed   []string
	answer   func(r got) (status int, retryAfter string) // status 0: never
}

func (r *receivers) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	g := got{req.URL.Host, req.Header.Get("Webhook-Id"), string(body), req.Header.Get("Webhook-Signature"), time.Now()}
	r.mu.Lock()
	r.requests = append(r.requests, g)
	status, retryAfter := r.answer(g)
	r.mu.Unlock()
	if status == 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	res := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
	res.Header.Set("Retry-After", retryAfter)
	return res, nil
}

func (r *receivers) sent() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

func (r *receivers) ids() (ids []string) {
	for _, g := range r.sent() {
		ids = append(ids, g.id)
	}
	return ids
}

func (r *receivers) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failed)
}

// world is everything about senders, without a network.
type world struct {
	*history
	*places
	*receivers
	cfg      Config
	registry *prometheus.Registry
}

func newWorld(t *testing.T, answer func(got) (int, string)) *world {
	t.Helper()
	w := &world{history: &history{}, places: newPlaces(), receivers: &receivers{answer: answer}}
	endpoints, err := ParseEndpoints("a http://a/x " + keyText)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = DefaultConfig()
	w.cfg.Endpoints, w.cfg.Source, w.cfg.Places, w.cfg.Kept = endpoints, w.history, w.places, 90*24*time.Hour
	w.cfg.Failed = func(_ string, err error) {
		w.receivers.mu.Lock()
		defer w.receivers.mu.Unlock()
		w.failed = append(w.failed, err.Error())
	}
	return w
}

// set changes what the parts read.
func (w *world) set(change func()) {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	w.places.mu.Lock()
	defer w.places.mu.Unlock()
	w.receivers.mu.Lock()
	defer w.receivers.mu.Unlock()
	change()
}

// start runs a sender until stop; kill ends it without leaving its places.
func (w *world) start(t *testing.T) (stop, kill func()) {
	t.Helper()
	cfg, mine := w.cfg, &cut{Places: w.places}
	w.registry = prometheus.NewRegistry()
	cfg.Registerer, cfg.Places = w.registry, mine
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.endpoints {
		e.client.Transport = w.receivers
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop, func() { mine.cut(); stop() }
}

// cut are places that can be taken from a sender, which cannot leave them then.
type cut struct {
	Places
	mu  sync.Mutex
	off bool
}

func (c *cut) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
}

func (c *cut) Swap(ctx context.Context, endpoint string, old, place []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return errors.New("cut")
	}
	return c.Places.Swap(ctx, endpoint, old, place)
}

func (w *world) value(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || strings.Contains(m.String(), `"`+label+`"`)) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// after lets time pass, and waits for what happens then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func ok(got) (int, string) { return 200, "" }

func TestMain(m *testing.M) {
	if runAsVictim() {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestSign(t *testing.T) {
	t.Parallel()
	key, err := ParseKey(keyText)
	if err != nil {
		t.Fatal(err)
	}
	// The vector of the specification's libraries.
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at, body := time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	if got := Sign([]Key{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	other, err := ParseKey("whsec_" + strings.Repeat("AAAA", 8))
	if err != nil {
		t.Fatal(err)
	}
	both := strings.Split(Sign([]Key{other, key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body), " ")
	if len(both) != 2 || both[0] == want || both[1] != want {
		t.Errorf("two keys: got %q, want another signature and %s", both, want)
	}
	if text := fmt.Sprintf("%v %+v %s", key, Endpoint{Keys: []Key{key}}, key); strings.Contains(text, "49") || strings.Contains(text, "Mf") {
		t.Errorf("a key is printed: %s", text)
	}
}

func TestParseEndpoints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# ours\n\nkitchen https://example.org/x?token=s3cret " + keyText + "\nb http://127.0.0.1:80 " + keyText + " " + keyText: "",
		"":                               "write 1 to 32 lines",
		"a http://a":                     "line 1: something is missing",
		"a http://a whsec_s3cret":        "line 1: this is no key",
		"a http://a " + keyText[6:]:      "this is no key",
		"A http://a " + keyText:          "write 1 to 32 of a-z",
		"a ftp://s3cret@a " + keyText:    "the URL of endpoint",
		"a http:///s3cret " + keyText:    "the URL of endpoint",
		"a http://a\x7f/s3cr " + keyText: "the URL of endpoint",
		"a http://a" + strings.Repeat(" "+keyText, 5):  "write 1 to 4",
		strings.Repeat("a http://a "+keyText+"\n", 33): "write 1 to 32 lines",
		strings.Repeat("x", 70_000):                    "too long",
	} {
		got, err := ParseEndpoints(text)
		switch {
		case want == "" && (err != nil || len(got) != 2 || got[0].Name != "kitchen" || got[0].URL != "https://example.org/x?token=s3cret" || len(got[1].Keys) != 2):
			t.Errorf("got %v and %v", got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr")):
			t.Errorf("%.40q: got %v, want %q and no secret", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"two endpoints have the name": func(c *Config) { c.Endpoints = append(c.Endpoints, c.Endpoints...) },
		"lease is 20s":                func(c *Config) { c.Lease = 20 * time.Second },
		"poll is 0s":                  func(c *Config) { c.Poll = 0 },
		"kept is 0s":                  func(c *Config) { c.Kept = 0 },
		"batch is 0":                  func(c *Config) { c.Batch = 0 },
		"has 0 keys":                  func(c *Config) { c.Endpoints[0].Keys = nil },
	} {
		w := newWorld(t, ok)
		change(&w.cfg)
		if _, err := New(w.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestDelivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ok)
		w.add("old", 1)
		stop, _ := w.start(t)
		synctest.Wait()
		for version := range 3 {
			w.add("k", version)
		}
		w.add("j", 1)
		after(w.cfg.Poll)
		ids := w.ids()
		slices.Sort(ids)
		if want := []string{"j_1", "k_2"}; !slices.Equal(ids, want) {
			t.Errorf("got %q, want %q: the newest of each key, and nothing from before the start", ids, want)
		}
		for _, g := range w.sent() {
			if want := Sign(w.cfg.Endpoints[0].Keys, g.id, g.at, []byte(g.body)); g.signature != want || g.body != `{"id":"`+g.id+`"}` {
				t.Errorf("got body %s and signature %s, want %s", g.body, g.signature, want)
			}
		}
		if got := w.value(t, "webhook_skipped_total", merged); got != 2 {
			t.Errorf("%v messages were merged, want 2", got)
		}
		stop()
		w.add("k", 3) // while nobody sends
		w.start(t)
		after(w.cfg.Poll)
		if ids := w.ids(); len(ids) != 3 || ids[2] != "k_3" {
			t.Errorf("after a restart: got %q, want k_3 as the third, at once", ids)
		}
		after(10 * time.Minute)
		if got := w.value(t, "webhook_behind_seconds", "a"); got > w.cfg.Poll.Seconds() || len(w.ids()) != 3 {
			t.Errorf("at rest: %v s behind and %q", got, w.ids())
		}
	})
}

// What an answer leads to: when the next tries are, and what is said.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type span struct{ from, to time.Duration }
	second := time.Second
	doubling := []span{{0, 0}, {second / 2, second}, {second, 2 * second}, {2 * second, 4 * second}}
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		want       []span // after the try before
		outcome    string
		said       string
	}{
		"500":             {500, "", doubling, refused, "k_1 was answered 500"},
		"400":             {400, "x", doubling, refused, "answered 400"},
		"302":             {302, "", doubling, unavailable, "answered 302"},
		"hangs":           {0, "", []span{{0, 0}, {15*second + second/2, 16 * second}, {16 * second, 17 * second}}, unavailable, "did not answer in time"},
		"429":             {429, "30", []span{{0, 0}, {30 * second, 30 * second}, {30 * second, 30 * second}}, unavailable, "answered 429"},
		"503 until":       {503, "Sat, 01 Jan 2000 00:00:20 GMT", []span{{0, 0}, {10 * second, 10 * second}, {second, 2 * second}}, unavailable, "answered 503"},
		"429 for ages":    {429, "99999999", []span{{0, 0}, {time.Hour, time.Hour}}, unavailable, "answered 429"},
		"502 for minutes": {502, "-1", append(doubling[:4:4], span{4 * second, 8 * second}, span{8 * second, 16 * second}), unavailable, "answered 502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				w := newWorld(t, func(got) (int, string) {
					if tries++; tries < len(c.want) {
						return c.status, c.retryAfter
					}
					return 204, ""
				})
				w.cfg.Poll = 10 * time.Second
				w.start(t)
				synctest.Wait()
				w.add("k", 1)
				after(3 * time.Hour)
				if len(w.sent()) != len(c.want) {
					t.Fatalf("got %d tries, want %d", len(w.sent()), len(c.want))
				}
				last := w.sent()[0].at
				for i, g := range w.sent() {
					if pause := g.at.Sub(last); pause < c.want[i].from || pause > c.want[i].to+time.Millisecond {
						t.Errorf("try %d came after %v, want %v to %v", i+1, pause, c.want[i].from, c.want[i].to)
					}
					last = g.at
				}
				if got := w.value(t, "webhook_attempt_seconds", c.outcome); got != float64(len(c.want)-1) {
					t.Errorf("%v tries are counted as %s, want %d", got, c.outcome, len(c.want)-1)
				}
				if len(w.said()) != len(c.want)-1 || !strings.Contains(w.said()[0], c.said) {
					t.Errorf("it said %q, want %q for each failure", w.failed, c.said)
				}
			})
		})
	}
}

// The longest pause holds, and the time that an endpoint is behind is seen.
func TestDownForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := true
		w := newWorld(t, func(g got) (int, string) {
			if down && g.host == "a" {
				return 503, ""
			}
			return 200, ""
		})
		b := w.cfg.Endpoints[0]
		b.Name, b.URL = "b", "http://b"
		w.cfg.Endpoints = append(w.cfg.Endpoints, b)
		w.cfg.Poll = 10 * time.Second
		w.start(t)
		synctest.Wait()
		for n := range 300 {
			w.add(fmt.Sprintf("k%d", n), 1)
		}
		after(time.Minute)
		if n := len(slices.DeleteFunc(w.sent(), func(g got) bool { return g.host != "b" })); n != 300 {
			t.Errorf("the other endpoint got %d, want all 300", n)
		}
		after(24 * time.Hour)
		if got := w.value(t, "webhook_behind_seconds", "a"); got < 86400 || got > 86600 {
			t.Errorf("a is %v s behind, want a day and a minute", got)
		}
		if got := w.value(t, "webhook_behind_seconds", "b"); got > 10 {
			t.Errorf("b is %v s behind, want none", got)
		}
		tries := len(w.sent()) - 300
		if tries < 144 || tries > 320 {
			t.Errorf("a down endpoint was tried %d times in a day, want every 5 to 10 minutes", tries)
		}
		w.set(func() { down = false })
		after(11 * time.Minute)
		if len(w.sent()) != tries+600 || w.value(t, "webhook_behind_seconds", "a") > 10 {
			t.Errorf("got %d requests when it was up again, want the 300, and none behind", len(w.sent())-tries-300)
		}
	})
}

func TestGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(got) (int, string) { return 410, "" })
		w.cfg.Parallel = 1
		stop, _ := w.start(t)
		synctest.Wait()
		w.add("k", 1)
		w.add("j", 1)
		after(24 * time.Hour)
		if ids := w.ids(); !slices.Equal(ids, []string{"k_1"}) || len(w.said()) != 1 || !strings.Contains(w.said()[0], "410") {
			t.Errorf("got %q and %q, want one try and one word about it", ids, w.said())
		}
		stop()
		w.set(func() { w.answer = ok })
		w.start(t)
		after(time.Second)
		if ids := w.ids(); !slices.Equal(ids, []string{"k_1", "k_1", "j_1"}) {
			t.Errorf("started anew: got %q", ids)
		}
	})
}

// A message that is refused is given up some time, and the endpoint is told.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(g got) (int, string) {
			if g.id == "bad_1" {
				return 422, ""
			}
			return 200, ""
		})
		w.start(t)
		synctest.Wait()
		since := time.Now()
		w.add("bad", 1)
		w.add("k", 1)
		after(23 * time.Hour)
		if n := len(slices.DeleteFunc(w.ids(), func(id string) bool { return id == "bad_1" })); n != 1 {
			t.Errorf("%d others arrived, want the one of the same batch", n)
		}
		w.add("k", 2)
		after(2 * time.Hour)
		last := w.sent()[len(w.sent())-2:]
		want := fmt.Sprintf(`"since":"%s"}`, since.UTC().Format("2006-01-02T15:04:05.000Z"))
		if !strings.HasPrefix(last[0].body, `{"type":"gap","timestamp":"`) || !strings.HasSuffix(last[0].body, want) || !json.Valid([]byte(last[0].body)) || last[1].id != "k_2" {
			t.Errorf("got %+v, want a gap, %s, and k_2", last, want)
		}
		if got := w.value(t, "webhook_skipped_total", givenUp); got != 1 {
			t.Errorf("%v were given up, want 1", got)
		}
	})
}

// Who was down for longer than messages are kept is told so, and gets the rest.
func TestGap(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"the endpoint was down": false, "no sender ran": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				down := true
				w := newWorld(t, func(got) (int, string) {
					if down {
						return 503, ""
					}
					return 200, ""
				})
				w.cfg.Batch, w.cfg.Kept = 1, 30*time.Hour
				stop, _ := w.start(t)
				after(time.Second)
				if stopped {
					stop()
				}
				for n := range 3 {
					w.add(fmt.Sprintf("k%d", n), 1)
				}
				after(w.cfg.Kept)
				w.set(func() { w.dropped, down = 2, false })
				if stopped {
					w.start(t)
				}
				w.add("k", 1)
				after(time.Hour)
				ids := slices.DeleteFunc(w.ids(), func(id string) bool { return id == "k0_1" }) // in memory all the time
				if len(ids) != 3 || !strings.HasPrefix(ids[0], "gap_") || ids[1] != "k2_1" || ids[2] != "k_1" {
					t.Errorf("got %q, want a gap and what was kept", ids)
				}
			})
		})
	}
}

// One sender at a time; the next takes over at once when it stops, and after Lease when it
// was killed.
func TestTwoSenders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ok)
		stop, _ := w.start(t)
		synctest.Wait()
		other, err := ParseKey("whsec_" + strings.Repeat("AAAA", 8))
		if err != nil {
			t.Fatal(err)
		}
		keys := [][]Key{w.cfg.Endpoints[0].Keys, {other}}
		w.cfg.Endpoints = []Endpoint{{Name: "a", URL: "http://a", Keys: keys[1]}}
		_, kill := w.start(t)
		n := 0
		next := func(within time.Duration, by int) {
			t.Helper()
			w.add(fmt.Sprintf("k%d", n), 1)
			n++
			after(within)
			if len(w.sent()) != n {
				t.Fatalf("got %q, want %d messages, each once", w.ids(), n)
			}
			if g := w.sent()[n-1]; g.signature != Sign(keys[by], g.id, g.at, []byte(g.body)) {
				t.Errorf("message %d was not sent by sender %d", n, by)
			}
		}
		next(time.Second, 0)
		after(10 * time.Minute)
		next(time.Second, 0)
		stop()
		next(2*time.Second, 1)
		w.cfg.Endpoints[0].Keys = keys[0]
		w.start(t)
		next(2*time.Second, 1)
		kill()
		w.add("after", 1)
		after(w.cfg.Lease / 2)
		if len(w.sent()) != n {
			t.Error("a place was taken over before the lease was over")
		}
		n++
		next(w.cfg.Lease, 0)
	})
}

// Whatever fails: nothing is lost, and keys keep their order.
func TestOrderUnderFailures(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random, answers := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			statuses := []int{200, 200, 200, 200, 500, 503, 429, 0}
			w := newWorld(t, func(got) (int, string) { return statuses[answers.IntN(len(statuses))], "" })
			w.cfg.Batch, w.cfg.Patience, w.cfg.Most = 10, 1000*time.Hour, time.Minute
			kills := make([]func(), 2)
			for i := range kills {
				_, kills[i] = w.start(t)
			}
			after(time.Second)
			versions := [7]int{}
			for step := range 300 {
				k := step % len(versions)
				versions[k]++
				w.add(fmt.Sprint("k", k), versions[k])
				after(time.Duration(random.IntN(20)) * 100 * time.Millisecond)
				if step%50 == 49 {
					i := random.IntN(len(kills))
					kills[i]()
					_, kills[i] = w.start(t)
				}
				if step%70 == 0 {
					w.set(func() { w.broken = true })
					after(time.Duration(random.IntN(60)) * time.Second)
					w.set(func() { w.broken = false })
				}
			}
			w.set(func() { w.answer = ok })
			after(15 * time.Minute)
			// A sender that was killed may have sent what its successor sends again: of two
			// neighbours with doubles between them the first arrivals count.
			first := map[string]int{}
			seen := map[string]bool{}
			for _, g := range w.sent() {
				key, text, _ := strings.Cut(g.id, "_")
				version, _ := strconv.Atoi(text)
				if !seen[g.id] && version < first[key] {
					t.Errorf("seed %d: %s came after version %d", seed, g.id, first[key])
				}
				seen[g.id], first[key] = true, max(version, first[key])
			}
			for k, version := range versions {
				if id := fmt.Sprintf("k%d_%d", k, version); !seen[id] {
					t.Errorf("seed %d: %s was lost", seed, id)
				}
			}
			if got := w.value(t, "webhook_behind_seconds", "a"); got > 20 { // as the other sender wrote last
				t.Errorf("seed %d: %v s behind in the end", seed, got)
			}
		})
	}
}

// A place that is not one is made anew: the endpoint is told that something may be missing,
// and gets what is kept.
func TestDamagedPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ok)
		w.add("k", 1)
		w.texts["a"] = []byte("{")
		w.start(t)
		after(2 * time.Second)
		ids := w.ids()
		if len(ids) != 2 || ids[0] != "gap_0" || ids[1] != "k_1" || cmp.Or(w.said()...) == "" {
			t.Errorf("got %q and %q, want a gap since ever, and k_1", ids, w.said())
		}
	})
}
