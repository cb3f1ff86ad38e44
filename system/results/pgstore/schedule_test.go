package pgstore

import (
	"errors"
	"testing"
	"time"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// The instant is kept with its zone and who has set it, from the moment on in which the
// students are visible.
func TestSchedule(t *testing.T) {
	t.Parallel()
	eat := time.FixedZone("", 3*3600)
	at := time.Date(2126, 7, 20, 8, 0, 0, 0, eat)
	url := filled(t, results.Embargoed(resultstest.Generator(t, 1, 100), at))
	state := func() results.State {
		t.Helper()
		db, err := OpenSource(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return db.State()
	}
	if got := state(); got.Published || got.PublishAt.Format(time.RFC3339) != "2126-07-20T08:00:00+03:00" || !got.Due.After(time.Now().AddDate(20, 0, 0)) {
		t.Errorf("filled: got %+v", got)
	}
	no := errors.New("no")
	if err := Reschedule(t.Context(), url, "me", func(_, _ time.Time) (time.Time, error) { return time.Time{}, no }); !errors.Is(err, no) {
		t.Errorf("got %v, want what was said", err)
	}
	for by, choose := range map[string]results.Reschedule{
		"who postpones": results.Until(at.Add(time.Hour)), "who repeats it": results.NotBefore(at), "who lifts": results.Lift,
	} {
		if err := Reschedule(t.Context(), url, by, choose); err != nil {
			t.Fatal(err)
		}
		if by == "who lifts" {
			if got := state(); !got.Published || got.PublishAt.IsZero() {
				t.Errorf("lifted: got %+v", got)
			}
		}
	}
	if err := Reschedule(t.Context(), url, "who has none", func(_, _ time.Time) (time.Time, error) { return time.Time{}, nil }); err != nil {
		t.Fatal(err)
	}
	if got := state(); !got.Published || !got.PublishAt.IsZero() {
		t.Errorf("none: got %+v", got)
	}
	if got := one[int](t, url, "SELECT count(*) FROM results.schedule WHERE set_by IN ('the filling', 'who has none') AND set_at <= now()"); got != 2 {
		t.Errorf("got %d entries of who has set it, want 2", got)
	}
	past := time.Now().Add(-time.Second)
	var refused *results.PastError
	if err := Reschedule(t.Context(), url, "me", results.Until(past)); !errors.As(err, &refused) {
		t.Errorf("got %v, want that it has passed", err)
	}
}
