package corpus

import (
	"slices"
	"testing"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// What is made up is the same each time, and something happens in it.
func TestInvent(t *testing.T) {
	t.Parallel()
	s := &chat.Stream{ID: 3, Started: time.UnixMilli(5000)}
	all := Invent(s, 600)
	equal := func(a, b chat.Message) bool { return string(a.Append(nil)) == string(b.Append(nil)) }
	if !slices.EqualFunc(all, Invent(s, 600), equal) || slices.EqualFunc(all, Invent(&chat.Stream{ID: 4, Started: s.Started}, 600), equal) {
		t.Error("a stream is not the same each time, or as another one")
	}
	var line analysis.Timeline
	highlights := 0
	for i, m := range all {
		if m.At < s.Started.UnixMilli() || i > 0 && m.At < all[i-1].At {
			t.Fatalf("message %d is at %d", i, m.At)
		}
		if line.Add(m.At-s.Started.UnixMilli(), uint64(i), analysis.Classify(m.Text)) != nil {
			highlights++
		}
	}
	if highlights == 0 {
		t.Error("nothing happens")
	}
}
