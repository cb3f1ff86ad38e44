package runner

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// moving is a system of one instance that is found elsewhere once it was started again.
type moving struct {
	driver.Running

	url atomic.Pointer[string]
}

func (m *moving) Hosts() []host.Host { return nil }

func (m *moving) Instances() []topology.Instance {
	return []topology.Instance{{Name: "api-1", MetricsURL: *m.url.Load()}}
}

// watched is a system with a host.
type watched struct{ moving }

func (*watched) Hosts() []host.Host { return make([]host.Host, 1) }

func TestInstancesWithoutAHostAreUnseen(t *testing.T) {
	t.Parallel()
	var blind moving
	var seen watched
	blind.url.Store(new(""))
	seen.url.Store(new(""))
	if a, b := instancesOf(&blind), instancesOf(&seen); len(a) != 1 || !a[0].Unseen || len(b) != 1 || b[0].Unseen {
		t.Errorf("got %+v without a host and %+v with one", a, b)
	}
}

// The metrics of an instance are read where it is, after a fault as well.
func TestMetricsAreReadWhereAnInstanceIs(t *testing.T) {
	t.Parallel()
	serve := func() (url string, asked chan struct{}) {
		asked = make(chan struct{}, 1)
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			select {
			case asked <- struct{}{}:
			default:
			}
		}))
		t.Cleanup(s.Close)
		return s.URL, asked
	}
	var up moving
	first, askedFirst := serve()
	second, askedSecond := serve()
	up.url.Store(&first)
	stop, err := prober{dir: t.TempDir(), up: &up, seen: &usage{}, blind: &unseen{}}.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []chan struct{}{askedFirst, askedSecond} {
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Error("its metrics are not read any more")
		}
		up.url.Store(&second)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
