package httpapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/cputime"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

// The work for an answer does not tell known ids from unknown ones, as far as a client
// could measure it: the bound is a tenth of the jitter of a fast network.
//
// What is compared is CPU time, in which others on the machine do not count. Known and
// unknown ids take turns in random order, and a difference of medians must show in each
// of several rounds to count. When the answer comes is TestSameAnswerSameTime's.
func TestTimeTellsNobodyWhoExists(t *testing.T) {
	const count = 5000
	path := filepath.Join(t.TempDir(), "snapshot")
	if err := snapshot.Build(t.Context(), path, resultstest.Generator(t, 1, count), nil); err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Follow(path, snapshot.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := difference(t, store, count)
	t.Logf("medians differ by %v", got)
	if got > timingBound {
		t.Errorf("known and unknown ids differ by %v, want at most %v", got, timingBound)
	}
	// The comparison must be able to fail.
	leaky := slowStore{store, 2 * timingBound}
	if got := difference(t, leaky, count); got <= timingBound {
		t.Errorf("a store that takes %v longer for known ids: got a difference of %v", leaky.extra, got)
	}
}

const (
	timingBound  = 10 * time.Microsecond
	timingRounds = 5
	// timingAsked is how many known and unknown ids are asked for in a round.
	timingAsked = 1000
)

// slowStore does more for ids that exist.
type slowStore struct {
	results.Store
	extra time.Duration
}

func (s slowStore) Lookup(ctx context.Context, id int64) (results.Page, error) {
	page, err := s.Store.Lookup(ctx, id)
	if err == nil {
		for worked := time.Duration(0); worked < s.extra; {
			worked += cputime.Of(func() { _ = fmt.Sprint(id) })
		}
	}
	return page, err
}

// difference returns the smallest difference of medians over all rounds.
func difference(t *testing.T, store results.Store, count int64) time.Duration {
	t.Helper()
	limits := guard.DefaultConfig()
	limits.Rate, limits.Burst = 1e6, 1e6
	api := newAPIWith(t, httpapi.Config{Store: store, Access: httpapi.Code, Limits: &limits})
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	least := time.Hour
	for round := range int64(timingRounds) {
		var times [2][]time.Duration
		for _, i := range random.Perm(2 * timingAsked) {
			// Another id each time, so that none is locked out.
			kind := i % 2
			id := 1 + round*timingAsked + int64(i/2) + int64(kind)*count
			times[kind] = append(times[kind], timeOf(t, api, id))
		}
		slices.Sort(times[0])
		slices.Sort(times[1])
		least = min(least, (times[0][timingAsked/2] - times[1][timingAsked/2]).Abs())
	}
	return least
}

func timeOf(t *testing.T, api *httpapi.API, id int64) time.Duration {
	t.Helper()
	var ctx fasthttp.RequestCtx
	var req fasthttp.Request
	req.SetRequestURI("/student/" + strconv.FormatInt(id, 10))
	req.Header.Set("X-Access-Code", "0000-0000-0000")
	ctx.Init(&req, nil, nil)
	took := cputime.Of(func() { api.Handle(&ctx) })
	if got := ctx.Response.StatusCode(); got != 404 {
		t.Fatalf("id %d: got status %d, want 404", id, got)
	}
	return took
}
