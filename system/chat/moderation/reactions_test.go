package moderation

import "testing"

// What a window took is nobody else's: not even of a window in which there was nothing.
func TestAWindowIsItsOwn(t *testing.T) {
	t.Parallel()
	r := NewReactions()
	for range 2 { // without any, and with one of the window before
		taken := r.Take()
		before := len(taken)
		if err := r.Add(int64(before)+1, "heart"); err != nil {
			t.Fatal(err)
		}
		if len(taken) != before {
			t.Errorf("a window of %d rooms has %d after it was taken", before, len(taken))
		}
	}
}
