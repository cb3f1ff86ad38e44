package perturb

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSlotsComeInWholeNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size   int
		factor float64
		want   int
	}{
		{4, 0.8, 3}, {4, 0.9, 3}, {4, 1, 4}, {4, 1.1, 5}, {4, 1.25, 5},
		{1, 0.8, 1}, {1, 1, 1}, {1, 1.1, 2}, {20, 0.9, 18}, {20, 1.25, 25}, {10, 0.8, 8},
	} {
		if got := (Endpoint{Size: c.size}).sized(c.factor); got != c.want {
			t.Errorf("%d slots × %g: got %d, want %d", c.size, c.factor, got, c.want)
		}
	}
	k := Slots("api", "connections", "{n}", []Endpoint{{Size: 4}, {Size: 4}, {Size: 12}})
	if got, want := k.Actual(1.25), 25.0/20; got != want {
		t.Errorf("what a quarter more comes to: got %g, want %g", got, want)
	}
	if got := k.String(); got != "api pool connections" {
		t.Errorf("the target is %q", got)
	}
}

// sizes is a service's instances that take a new size.
type sizes struct {
	mu  sync.Mutex
	got []string
	say int // the status of the answer
}

func (s *sizes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
	w.WriteHeader(s.say)
	fmt.Fprint(w, "too many")
}

func (s *sizes) set(status int) { s.mu.Lock(); defer s.mu.Unlock(); s.say = status }

func (s *sizes) all() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.got) }

func TestAPoolIsPutAndRestoredAlsoAfterCancelling(t *testing.T) {
	t.Parallel()
	service := &sizes{say: http.StatusNoContent}
	srv := httptest.NewServer(service)
	defer srv.Close()
	k := Slots("api", "slots", `{"size": {n}}`, []Endpoint{{URL: srv.URL + "/a", Size: 4}, {URL: srv.URL + "/b", Size: 8}})
	s := NewSession(DefaultConfig(), []Knob{k})
	if err := s.turn(t.Context(), step{arm: 0, factor: 0.8}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if want := 9.0 / 12; math.Abs(s.under.Factor-want) > 1e-9 {
		t.Errorf("the slot's factor is %g, want %g: what was really set", s.under.Factor, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err != nil {
		t.Fatal(err)
	}
	want := []string{`PUT /a {"size": 3}`, `PUT /b {"size": 6}`, `PUT /a {"size": 4}`, `PUT /b {"size": 8}`}
	if got := service.all(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAPoolThatRefusesIsAnError(t *testing.T) {
	t.Parallel()
	service := &sizes{say: http.StatusBadRequest}
	srv := httptest.NewServer(service)
	defer srv.Close()
	s := NewSession(DefaultConfig(), []Knob{Slots("api", "slots", "{n}", []Endpoint{{URL: srv.URL, Size: 4}})})
	err := s.turn(t.Context(), step{arm: 0, factor: 1.25}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "perturb pool of api") || !strings.Contains(err.Error(), "status 400 (too many)") {
		t.Errorf("got %v, want an error with status and answer", err)
	}
	service.set(http.StatusOK)
	if err := s.Close(t.Context()); err != nil { // what failed half way is restored too
		t.Error(err)
	}
	if got := service.all(); len(got) != 2 || !strings.HasSuffix(got[1], " 4") {
		t.Errorf("got %q, want the size of before at last", got)
	}
}
