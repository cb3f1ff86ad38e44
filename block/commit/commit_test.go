package commit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a Commit that waits until it is told to go on.
type disk struct {
	mu     sync.Mutex
	groups [][]int
	began  chan struct{}
	goOn   chan error
}

func newDisk() *disk { return &disk{began: make(chan struct{}), goOn: make(chan error)} }

func (d *disk) commit(items []int) error {
	d.began <- struct{}{}
	err := <-d.goOn
	d.mu.Lock()
	defer d.mu.Unlock()
	d.groups = append(d.groups, slices.Clone(items))
	return err
}

func newWriter(t *testing.T, commit func([]int) error, queue, batch int) (*Writer[int], *prometheus.Registry) {
	t.Helper()
	return newWriterThat(t, Refuse, commit, queue, batch)
}

func newWriterThat(t *testing.T, policy Policy, commit func([]int) error, queue, batch int) (*Writer[int], *prometheus.Registry) {
	t.Helper()
	r := prometheus.NewRegistry()
	return New(Config[int]{Commit: commit, Queue: queue, WhenFull: policy, Batch: batch, Registerer: r}), r
}

// value is that of a counter without labels.
func value(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestWhoWaitsIsCommittedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w, r := newWriter(t, d.commit, 10, 4)
		answers := make(chan error, 7)
		put := func(i int) { go func() { answers <- w.Put(t.Context(), i) }() }
		put(0)
		<-d.began // alone: nobody waits for a group to fill
		for i := 1; i < 7; i++ {
			put(i)
			synctest.Wait() // in this order
		}
		if len(answers) > 0 {
			t.Error("somebody was answered before the commit")
		}
		failed := errors.New("no space left")
		d.goOn <- nil
		<-d.began
		if got := len(answers); got > 1 {
			t.Errorf("%d were answered, want the first alone", got)
		}
		d.goOn <- failed
		<-d.began
		d.goOn <- nil
		w.Close()
		if want := [][]int{{0}, {1, 2, 3, 4}, {5, 6}}; !slices.EqualFunc(d.groups, want, slices.Equal) {
			t.Errorf("got groups %v, want %v", d.groups, want)
		}
		bad := 0
		for range 7 {
			if err := <-answers; errors.Is(err, failed) {
				bad++
			}
		}
		if bad != 4 {
			t.Errorf("%d were told of the failure, want all 4 of the group that failed", bad)
		}
		if families, err := r.Gather(); err != nil || len(families) != 5 {
			t.Errorf("got %d metrics, %v, want 5", len(families), err)
		}
	})
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w, r := newWriter(t, d.commit, 2, 4)
		answers := make(chan error, 3)
		go func() { answers <- w.Put(t.Context(), 0) }()
		<-d.began
		for i := range 2 {
			go func() { answers <- w.Put(t.Context(), i+1) }()
		}
		synctest.Wait()
		if err := w.Put(t.Context(), 3); !errors.Is(err, ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		if got := value(t, r, "commit_queue_refused_total"); got != 1 {
			t.Errorf("got %v refused, want 1", got)
		}
		d.goOn <- nil
		<-d.began
		d.goOn <- nil
		w.Close()
		for range 3 {
			if err := <-answers; err != nil {
				t.Errorf("who was in the queue: got %v", err)
			}
		}
	})
}

func TestWhoLeavesIsCommittedAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w, _ := newWriter(t, d.commit, 2, 4)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- w.Put(ctx, 7) }()
		<-d.began
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		d.goOn <- nil
		w.Close()
		if len(d.groups) != 1 {
			t.Errorf("got %v, want what was begun", d.groups)
		}
	})
}

// Under Wait one more waits for room, leaves if its context ends before there is some,
// and stays to the end once it has it.
func TestAFullQueueIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w, _ := newWriterThat(t, Wait, d.commit, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		answers, left := make(chan error, 3), make(chan error)
		put := func(i int) { answers <- w.Put(ctx, i) }
		go put(0)
		<-d.began
		go put(1) // in the queue
		synctest.Wait()
		leaving, leave := context.WithCancel(t.Context())
		go func() { left <- w.Put(leaving, 2) }()
		synctest.Wait()
		if len(left) > 0 {
			t.Error("it did not wait for room")
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left before there was room: got %v", err)
		}
		go func() { answers <- w.Put(t.Context(), 3) }() // waits for room
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(answers) > 0 {
			t.Error("somebody whose item is under way has left")
		}
		for range 2 {
			d.goOn <- nil
			<-d.began
		}
		d.goOn <- nil
		w.Close()
		for range 3 {
			if err := <-answers; err != nil {
				t.Errorf("got %v, want it committed", err)
			}
		}
		if want := [][]int{{0}, {1}, {3}}; !slices.EqualFunc(d.groups, want, slices.Equal) {
			t.Errorf("got groups %v, want %v", d.groups, want)
		}
	})
}

// Who starts does not wait, whatever the policy, and its items keep their order.
func TestStartDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{Refuse, Wait} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk()
			w, r := newWriterThat(t, policy, d.commit, 2, 4)
			if err := w.Start(0); err != nil {
				t.Fatal(err)
			}
			<-d.began
			for i, want := range []error{nil, nil, ErrFull} {
				if err := w.Start(i + 1); !errors.Is(err, want) {
					t.Errorf("%s: item %d: got %v, want %v", policy, i+1, err, want)
				}
			}
			if got := value(t, r, "commit_queue_refused_total"); got != 1 {
				t.Errorf("%s: got %v refused, want 1", policy, got)
			}
			d.goOn <- nil
			<-d.began
			d.goOn <- nil
			w.Close()
			if want := [][]int{{0}, {1, 2}}; !slices.EqualFunc(d.groups, want, slices.Equal) {
				t.Errorf("%s: got groups %v, want %v", policy, d.groups, want)
			}
			if err := w.Start(4); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: after Close: got %v", policy, err)
			}
		})
	}
}

func TestCloseCommitsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		w, _ := newWriter(t, d.commit, 5, 1)
		answers := make(chan error, 3)
		for i := range 3 {
			go func() { answers <- w.Put(t.Context(), i) }()
		}
		<-d.began
		synctest.Wait()
		closed := make(chan struct{})
		go func() { w.Close(); close(closed) }()
		synctest.Wait()
		if err := w.Put(t.Context(), 9); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
		d.goOn <- nil
		for range 2 {
			<-d.began
			d.goOn <- nil
		}
		<-closed
		w.Close()
		if len(d.groups) != 3 {
			t.Errorf("got %v, want all three", d.groups)
		}
	})
}
