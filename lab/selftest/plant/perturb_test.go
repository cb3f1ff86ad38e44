package plant

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/perturb"
)

// offered is closed load on a plant: so many users, each of whose answers is
// counted.
type offered struct {
	mu        sync.Mutex
	latencies *hdrhistogram.Histogram
	failed    uint64
}

func (o *offered) use(ctx context.Context, c *http.Client, url string) {
	for ctx.Err() == nil {
		began := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return
		}
		resp, err := c.Do(req)
		if ctx.Err() != nil {
			return
		}
		bad := err != nil || resp.StatusCode != http.StatusOK
		if err == nil {
			_ = resp.Body.Close()
		}
		o.mu.Lock()
		_ = o.latencies.RecordValue(time.Since(began).Microseconds())
		if bad {
			o.failed++
		}
		o.mu.Unlock()
	}
}

// window takes what was answered since the last one.
func (o *offered) window(began time.Time) (load.Window, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := o.latencies.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	w := load.Window{
		Start: began, Seconds: time.Since(began).Seconds(), Requests: uint64(o.latencies.TotalCount()), Failed: o.failed, Response: string(text),
	}
	o.latencies, o.failed = load.NewHistogram(), 0
	return w, err
}

// A pool of 4 that all wait for is made larger and smaller under load, its elasticity
// is estimated, and its size is afterwards what it was. How large the estimate is
// depends on what else the machine does: the self-test judges that.
func TestThePoolOfAPlantIsPerturbed(t *testing.T) {
	t.Parallel()
	slow := start(t, func(c *Config) { c.SleepMillis = 10 })
	s := start(t, func(c *Config) { c.Pool, c.Calls = &Pool{Size: 4}, []Call{callTo(t, slow)} })
	ctx, stop := context.WithCancel(t.Context())
	asked := &offered{latencies: load.NewHistogram()}
	users := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { asked.use(ctx, users, s.url()) })
	}
	defer users.CloseIdleConnections()
	defer all.Wait()
	defer stop()

	config := perturb.DefaultConfig()
	config.Budget = 5 * time.Minute // it ends when both sizes were tried, and answered at
	config.MinRequests = 1
	knob := perturb.Slots("api", "connections", "{n}", []perturb.Endpoint{{URL: "http://" + s.AdminAddr().String() + "/pool", Size: 4}})
	c := newClient(t)
	var session *perturb.Session
	var found []perturb.Elasticity
	var sizes map[float64]bool
	for begun := 1; ; begun++ {
		session, found, sizes = perturb.NewSession(config, []perturb.Knob{knob}), nil, map[float64]bool{}
		began := time.Now()
		var err error
		for word := ""; err == nil && word == "" && !(len(found) == 1 && sizes[3] && sizes[5]); {
			time.Sleep(250 * time.Millisecond) // the length of a slot, not a wait for something
			w, errWindow := asked.window(began)
			if errWindow != nil {
				t.Fatal(errWindow)
			}
			began = time.Now()
			word, err = session.Window(t.Context(), w)
			sizes[c.metric(s, "plant_pool_size")] = true
			found = perturb.Estimate(session.Slots())
		}
		if err == nil {
			break
		}
		// On a busy machine a change may take longer than it is given.
		if late := net.Error(nil); begun == 3 || !errors.As(err, &late) || !late.Timeout() {
			t.Fatal(err)
		}
		_ = session.Close(t.Context()) // the next one sets the size as well
	}
	stop()
	if err := session.Close(ctx); err != nil { // which has ended
		t.Fatal(err)
	}
	within(t, "slots afterwards", c.metric(s, "plant_pool_size"), 4, 4)
	if len(found) != 1 || found[0].Targets[0].String() != "api pool connections" {
		t.Fatalf("got %+v from %+v, want one elasticity, of the pool", found, session.Slots())
	}
	if !sizes[3] || !sizes[5] {
		t.Errorf("the pool had the sizes %v, want 3 and 5 among them", sizes)
	}
}
