package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/block/service"
)

// journal notes what happened in which order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) note(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// component runs until it is told to stop, then returns runErr.
func (j *journal) component(name string, runErr, closeErr error) service.Component {
	return service.Component{
		Name: name,
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			j.note("stop " + name)
			return runErr
		},
		Close: func() error {
			j.note("close " + name)
			return closeErr
		},
	}
}

func TestGroupStopsInReverseOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := service.NewGroup(time.Second)
		g.Add(service.Component{Name: "store", Close: func() error { j.note("close store"); return nil }})
		g.Add(j.component("admin", nil, nil))
		g.Add(j.component("api", nil, nil))

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		if got := j.all(); len(got) != 0 {
			t.Fatalf("before the stop: got %q, want nothing", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		want := []string{"stop api", "close api", "stop admin", "close admin", "close store"}
		if got := j.all(); !slices.Equal(got, want) {
			t.Errorf("order: got %q, want %q", got, want)
		}
	})
}

func TestGroupEnds(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	closing := errors.New("closing")
	fails := func(err error) service.Component {
		return service.Component{Name: "worker", Run: func(context.Context) error { return err }}
	}
	stuck := service.Component{Name: "stuck", Run: func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(time.Minute) // virtual time: longer than the group waits
		return nil
	}}
	for name, c := range map[string]struct {
		add       func(j *journal, g *service.Group)
		cancelled bool
		want      []error
		first     string
	}{
		"component fails": {
			add:   func(_ *journal, g *service.Group) { g.Add(fails(boom)) },
			want:  []error{boom},
			first: "worker: boom",
		},
		"component returns nil too early": {
			add:   func(_ *journal, g *service.Group) { g.Add(fails(nil)) },
			want:  []error{service.ErrEnded},
			first: "worker: ended",
		},
		"first error leads and closes are joined": {
			add: func(j *journal, g *service.Group) {
				g.Add(j.component("late", nil, closing))
				g.Add(fails(boom))
			},
			want:  []error{boom, closing},
			first: "worker: boom",
		},
		"error while stopping": {
			add:       func(j *journal, g *service.Group) { g.Add(j.component("api", boom, nil)) },
			cancelled: true,
			want:      []error{boom},
			first:     "stop api: boom",
		},
		"stuck component does not keep the others open": {
			add: func(j *journal, g *service.Group) {
				g.Add(j.component("late", nil, closing))
				g.Add(stuck)
			},
			cancelled: true,
			want:      []error{service.ErrStuck, closing},
			first:     "stop stuck",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var j journal
				g := service.NewGroup(time.Second)
				g.Add(j.component("base", nil, nil))
				c.add(&j, g)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.cancelled {
					stop()
				}
				err := g.Run(ctx)
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("Run: got %v, want it to hold %v", err, want)
					}
				}
				if err != nil && !strings.HasPrefix(err.Error(), c.first) {
					t.Errorf("Run: got %q, want it to start with %q", err, c.first)
				}
				if got := j.all(); got[len(got)-1] != "close base" {
					t.Errorf("last event: got %q, want %q", got, "close base")
				}
				time.Sleep(time.Hour) // virtual: the bubble must be empty at its end
			})
		})
	}
}

func TestGroupCloseWithoutRun(t *testing.T) {
	t.Parallel()
	var j journal
	boom := errors.New("boom")
	g := service.NewGroup(time.Second)
	g.Add(j.component("store", nil, nil))
	g.Add(j.component("cache", nil, boom))
	if err := g.Close(); !errors.Is(err, boom) {
		t.Errorf("Close: got %v, want %v", err, boom)
	}
	if got, want := j.all(), []string{"close cache", "close store"}; !slices.Equal(got, want) {
		t.Errorf("order: got %q, want %q", got, want)
	}
}
