package pagecache

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

const students = 3000

// broken is a source that ends early.
type broken struct {
	dataset.Source[results.Student]

	after int64
}

var errBroken = errors.New("the database went away")

func (b broken) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		for s, err := range b.Source.All(ctx) {
			if s.ID > b.after {
				yield(results.Student{}, errBroken)
				return
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func open(t *testing.T, url string) *Shared {
	t.Helper()
	s, err := OpenShared(t.Context(), url, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// bodyOf is what Redis has of a student.
func bodyOf(t *testing.T, s *Shared, set Set, id int64) string {
	t.Helper()
	item, err := s.Get(t.Context(), Key{set, id}.Text())
	if errors.Is(err, cache.ErrMiss) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	page, err := Decode(item.Value)
	if err != nil {
		t.Fatal(err)
	}
	return string(page.Body)
}

// A preload that was broken off goes on; a complete one is not repeated; another
// data set is none of it; an emptied Redis is filled again.
func TestPreload(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	url := "redis://" + redis.Addr()
	source := resultstest.Generator(t, 5, students)
	run := func(what string, source dataset.Source[results.Student], written, existing int64, want error) {
		t.Helper()
		w, e, err := Preload(t.Context(), url, source, nil)
		if !errors.Is(err, want) || want == nil && (w != written || e != existing) {
			t.Errorf("%s: got %d written, %d existing and %v, want %d, %d and %v", what, w, e, err, written, existing, want)
		}
	}
	run("broken off", broken{source, 2000}, 0, 0, errBroken)
	before := redis.Command("DBSIZE")
	if before == "0" || strings.HasPrefix(redis.Command("KEYS", "results.preloaded*"), "results") {
		t.Errorf("after a preload that was broken off: %s keys, or it is noted as done", before)
	}
	var last [2]int64
	w, e, err := Preload(t.Context(), url, source, func(done, total int64) { last = [2]int64{done, total} })
	if err != nil || w+e != students || e == 0 || w == 0 {
		t.Errorf("going on: got %d written, %d existing and %v, want some of both, %d in all", w, e, err, students)
	}
	if last != [2]int64{students, students} {
		t.Errorf("progress ended with %v of %v, want all", last[0], last[1])
	}
	run("again", source, 0, students, nil)
	run("another data set", resultstest.Generator(t, 6, students), students, 0, nil)
	redis.Flush()
	run("emptied", source, students, 0, nil)

	shared, student := open(t, url), source.Student(77)
	if got, want := bodyOf(t, shared, SetOf(source.Meta()), 77), string(results.NewPage(&student).Body); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	redis.Kill()
	if _, _, err := Preload(t.Context(), url, source, nil); err == nil || !strings.Contains(err.Error(), redis.Addr()) {
		t.Errorf("without Redis: got %v, want an error that names it", err)
	}
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	url := "redis://u:secret@" + redis.Addr()
	redis.Command("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all")
	source := resultstest.Generator(t, 5, students)
	meta, set := source.Meta(), SetOf(source.Meta())
	shared := open(t, url)
	var mu sync.Mutex
	heard := map[string]int{}
	shared.Watch(func(key string) {
		mu.Lock()
		defer mu.Unlock()
		heard[key]++
	})
	times := func(id int64) int {
		mu.Lock()
		defer mu.Unlock()
		return heard[Key{set, id}.Text()]
	}
	student := source.Student(77)
	page := results.NewPage(&student)
	until(t, "the subscription", func() bool { return redis.Command("PUBSUB", "CHANNELS") != "" })
	if err := Correct(t.Context(), url, meta, 77, &page); err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, shared, set, 77); got != string(page.Body) {
		t.Errorf("after a replacement: got %q, want the page", got)
	}
	until(t, "the message", func() bool { return times(77) == 1 })
	if err := Correct(t.Context(), url, meta, 77, nil); err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, shared, set, 77); got != "" {
		t.Errorf("after a deletion: got %q, want nothing", got)
	}

	// A correction whose message is lost is read in the journal, once Redis answers.
	cfg, err := TierConfig(url, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	journal, err := connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if err := note(t.Context(), journal, Key{set, 78}.Text()); err != nil {
		t.Fatal(err)
	}
	if times(78) != 0 {
		t.Fatal("there was a message: this tests nothing")
	}
	shared.every = 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := shared.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	until(t, "the journal", func() bool { return times(78) > 0 })
	stop()
	running.Wait()

	redis.Kill()
	if err := Correct(t.Context(), url, meta, 77, &page); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("without Redis: got %v, want an error without the password", err)
	}
}
