package pagecache

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache/rediscache"
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

// database is a source that has a state.
type database struct {
	dataset.Source[results.Student]

	state results.State
}

func (d database) State() results.State  { return d.state }
func (d database) Revised() dataset.Meta { return d.Meta() }

// A preload that was broken off is done again; a complete one is not repeated; another
// data set, another revision and another time of publication are none of it; an emptied
// Redis is filled again. Pages live for a day after the results are out.
func TestPreload(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	url := "redis://" + redis.Addr()
	source := resultstest.Generator(t, 5, students)
	state := results.State{Set: 7, Revision: 3, Published: true}
	run := func(what string, db results.Database, written int64, want error) {
		t.Helper()
		w, err := Preload(t.Context(), url, db, nil)
		if !errors.Is(err, want) || want == nil && w != written {
			t.Errorf("%s: got %d written and %v, want %d and %v", what, w, err, written, want)
		}
	}
	run("broken off", database{broken{source, 2000}, state}, 0, errBroken)
	before := redis.Command("DBSIZE")
	if before == "0" || strings.HasPrefix(redis.Command("KEYS", "results.preloaded*"), "results") {
		t.Errorf("after a preload that was broken off: %s keys, or it is noted as done", before)
	}
	var last [2]int64
	w, err := Preload(t.Context(), url, database{source, state}, func(done, total int64) { last = [2]int64{done, total} })
	if err != nil || w != students || last != [2]int64{students, students} {
		t.Errorf("got %d written, told %v, and %v, want %d", w, last, err, students)
	}
	run("again", database{source, state}, 0, nil)
	other := state
	other.Set++
	run("another data set", database{source, other}, students, nil)
	run("the first again", database{source, state}, 0, nil)
	redis.Flush()
	run("emptied", database{source, state}, students, nil)
	state.Revision++
	run("corrected", database{source, state}, students, nil)
	state.PublishAt, state.Published = time.Now().Add(13*time.Hour), false
	run("published later", database{source, state}, students, nil)
	run("published later, again", database{source, state}, 0, nil)
	key := Key{state.Set, 77}.Text()
	const hour = 3_600_000
	life, err := strconv.Atoi(redis.Command("PTTL", Prefix+key))
	if err != nil || life < (13+21)*hour || life > (13+24)*hour {
		t.Errorf("a page lives for %d ms and %v, want a day, less a tenth at most, after the results are out", life, err)
	}
	noted, err := strconv.Atoi(redis.Command("PTTL", markerPrefix+strconv.FormatUint(uint64(state.Set), base)))
	if err != nil || noted < 13*hour || noted > (13+22)*hour {
		t.Errorf("that they are there is noted for %d ms and %v, want no longer than the first of them lives", noted, err)
	}
	cfg, err := TierConfig(url, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ReadTimeout, cfg.WriteTimeout = patience, patience
	tier, err := rediscache.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	item, err := tier.Get(t.Context(), key)
	if err = errors.Join(err, tier.Close()); err != nil {
		t.Fatal(err)
	}
	student := source.Student(77)
	if page, err := decode(item.Value); err != nil || page.revision != 4 || !resultstest.SamePage(page.Page, results.NewPage(&student)) {
		t.Errorf("got %+v and %v, want the student's page of revision 4", page, err)
	}
	redis.Kill()
	if _, err := Preload(t.Context(), url, database{source, state}, nil); err == nil || !strings.Contains(err.Error(), redis.Addr()) {
		t.Errorf("without Redis: got %v, want an error that names it", err)
	}
}

// A Redis that is slow when everything starts is waited for: without this job a system does
// not start.
func TestPreloadWaitsForASlowRedis(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	db := database{resultstest.Generator(t, 5, 10), results.State{Set: 7, Published: true}}
	redis.Pause()
	resumed := make(chan struct{})
	time.AfterFunc(1500*time.Millisecond, func() { redis.Resume(); close(resumed) })
	if written, err := Preload(t.Context(), "redis://"+redis.Addr(), db, nil); err != nil || written != 10 {
		t.Errorf("got %d written and %v, want 10", written, err)
	}
	<-resumed
}
