package sqlitestore

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/sqlite"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// A follower serves each whole file that comes to the path, while it is asked, and keeps
// the last one while there is none.
func TestFollow(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, 100)
	path := database(t, source)
	var switched, refused atomic.Int64
	f, err := Follow(t.Context(), path, Config{
		Interval: time.Millisecond, Switched: func(dataset.Meta, dataset.Meta) { switched.Add(1) }, Refused: func(error) { refused.Add(1) },
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { must(t, f.Run(ctx)) })
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.Lookup(context.Background(), 7); err != nil {
					t.Errorf("a look-up: %v", err)
					return
				}
			}
		})
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	first := f.State()
	student := resultstest.OtherStream(source.Student(7))
	_, err = Correct(t.Context(), path, resultstest.Corrections(student))
	must(t, err)
	until("the correction", func() bool { return f.State().Revision == 1 })
	if state := f.State(); state.Set != first.Set || state.Fresh(7, 0) || !state.Fresh(7, 1) || !state.Fresh(8, 0) {
		t.Errorf("got %+v, want the same data set, in which student 7 was corrected", state)
	}
	page, err := f.Lookup(t.Context(), 7)
	must(t, err)
	resultstest.CheckPage(t, page, &student)
	must(t, os.Remove(path))
	until("that it is gone", func() bool { return refused.Load() == 1 })
	must(t, os.WriteFile(path+".new", []byte("something else"), 0o600))
	must(t, os.Rename(path+".new", path)) // whole, so that it is refused once
	until("that it is something else", func() bool { return refused.Load() == 2 })
	build(t, path, source)
	until("the same, built anew", func() bool { return switched.Load() == 2 })
	if state := f.State(); state.Set == first.Set || state.Revision != 0 || f.Meta() != source.Meta() {
		t.Errorf("got %+v, want another data set than %x", state, first.Set)
	}
	stop()
	running.Wait()
	must(t, f.Close())
	if _, err := f.Lookup(t.Context(), 7); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("closed: got %v, want %v", err, results.ErrUnavailable)
	}
}

// A file of the version before does not know which filling it is. Two imports of one file
// differ by their codes, and a correction does not make it another data set.
func TestIdentityOfAFileOfBefore(t *testing.T) {
	t.Parallel()
	generator := resultstest.Generator(t, 3, 2)
	var files [2]string
	for i, code := range []string{"FIRST-CODE-1", "OTHER-CODE-2"} {
		list := resultstest.List{Description: dataset.Meta{Origin: "a.csv", Fingerprint: "csv 1", Count: 2}}
		list.Students = []results.Student{generator.Student(1), generator.Student(2)}
		list.Students[0].Code = code
		files[i] = database(t, list)
		conn, closeAll, err := sqlite.OpenAlone(t.Context(), files[i])
		must(t, err)
		must(t, execute(t.Context(), conn, "DELETE FROM meta WHERE key = 'identity'"))
		must(t, closeAll())
	}
	one, other := open(t, files[0]), open(t, files[1])
	if one.State().Set == other.State().Set || one.Meta().Same(other.Meta()) {
		t.Errorf("got %+v twice, want two data sets", one.Meta())
	}
	student := generator.Student(1)
	student.Code = "THIRD-CODE-3"
	_, err := Correct(t.Context(), files[0], resultstest.Corrections(student))
	must(t, err)
	if after := open(t, files[0]); after.State().Set != one.State().Set || after.Meta() != one.Meta() || after.Revised().Same(one.Revised()) {
		t.Errorf("after a correction: got %+v, want it to be %+v, corrected", after.Meta(), one.Meta())
	}
}
