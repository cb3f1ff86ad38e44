package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"loadstone/system/chat"
)

// shelf keeps messages, the newest first; what is not there yet comes with each question.
type shelf struct {
	rows, later []chat.Raw
	fails       int // questions
	asked       int
}

func (s *shelf) Newest(_ context.Context, stream int64, before time.Time, most int) ([]chat.Raw, error) {
	if s.asked++; s.asked <= s.fails {
		return nil, errors.New("no node answers")
	}
	var out []chat.Raw
	for _, r := range s.rows {
		if r.Stream == stream && time.UnixMilli(r.At).Before(before) && len(out) < most {
			out = append(out, r)
		}
	}
	if len(s.later) > 0 {
		s.rows, s.later = slices.Insert(s.rows, 0, s.later[0]), s.later[1:]
	}
	return out, nil
}

// All of a long log is found, page by page, also where many were said in one millisecond, and once the store is there
// and has all.
func TestAllThatIsKeptIsRead(t *testing.T) {
	t.Parallel()
	const count = 2*keptPage + 100
	log := make([]chat.Message, count)
	for i := range log {
		log[i] = chat.Message{Offset: uint64(i), At: int64(1_800_000_000_000 + i/300), Sender: "noor", ID: fmt.Sprint(i), Text: "text"}
	}
	kept := func(log []chat.Message) (rows []chat.Raw) {
		for _, m := range slices.Backward(log) {
			rows = append(rows, chat.Raw{Stream: 1, Message: m})
		}
		return rows
	}
	for name, c := range map[string]struct {
		store  *shelf
		within time.Duration
		kept   int64
		wrong  bool
		err    string
	}{
		"it has all":          {store: &shelf{rows: kept(log)}, within: 2 * time.Minute, kept: count},
		"it has all later":    {store: &shelf{rows: kept(log[:count-1]), later: kept(log[count-1:]), fails: 1}, within: 2 * time.Minute, kept: count},
		"it never has one":    {store: &shelf{rows: kept(log[1:])}, within: 100 * time.Millisecond, kept: count - 1, wrong: true},
		"it is not there":     {store: &shelf{fails: 1 << 30}, within: 100 * time.Millisecond, err: "read what is kept: no node answers"},
		"it has older ones":   {store: &shelf{rows: append(kept(log), chat.Raw{Stream: 1, Message: chat.Message{At: 5, Sender: "noor", ID: "old"}})}, within: 2 * time.Minute, kept: count},
		"it has other stream": {store: &shelf{rows: append(kept(log), chat.Raw{Stream: 2, Message: log[0]})}, within: 2 * time.Minute, kept: count},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Kept = c.store
			r := newReconciler(cfg)
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			err := r.keeps(ctx, 1, log)
			if got := r.books.Count(); fmt.Sprint(err) != cmp.Or(c.err, "<nil>") || got.Kept != c.kept || (got.Wrong > 0) != c.wrong {
				t.Errorf("got %v, %v and %v", got, r.books.Wrong(), err)
			}
		})
	}
}
