package recordfile

import (
	"errors"
	"os"
	"testing"

	"loadstone/block/follow"
	"loadstone/system/menu"
)

// With memory, a menu that was looked up is there even when the file no longer is; without, it is not.
// Either way the tag is that of the body, which belongs to the caller.
func TestMenusAreKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1 << 20} {
		path, _ := built(t, 1, 20)
		file, err := Follow(path, Config{Settings: follow.DefaultSettings(), CacheBytes: size})
		if err != nil {
			t.Fatal(err)
		}
		want := lookedUp(t, file, 7)
		for range 2 {
			clear(lookedUp(t, file, 7).Body) // whoever writes into an answer writes into no other
		}
		if err := os.Truncate(path, headerSize); err != nil {
			t.Fatal(err)
		}
		got, err := file.Append([]byte("before"), 7)
		switch {
		case size == 0 && !errors.Is(err, menu.ErrCorrupt):
			t.Errorf("without memory: %v, want that the file is damaged", err)
		case size > 0 && (err != nil || string(got.Body) != "before"+string(want.Body) || got.Tag != want.Tag):
			t.Errorf("with memory: %s, %v; want %s", got.Body, err, want.Body)
		}
		if _, err := file.Lookup(t.Context(), 8); !errors.Is(err, menu.ErrCorrupt) {
			t.Errorf("a menu that was not looked up: %v, want that the file is damaged", err)
		}
	}
}

func lookedUp(t *testing.T, file *Follower, id int64) menu.Page {
	t.Helper()
	page, err := file.Lookup(t.Context(), id)
	if err != nil || menu.Tag(page.Body) != page.Tag {
		t.Fatalf("menu %d: %v, or a body that is not its tag's", id, err)
	}
	return page
}

// What is kept stays within its memory, however many menus are looked up, and what is asked for often is
// kept when the memory is full of others.
func TestKeptMenusAreBounded(t *testing.T) {
	t.Parallel()
	const size, count = 100_000, 2000
	path, _ := built(t, 1, count)
	file, err := Follow(path, Config{Settings: follow.DefaultSettings(), CacheBytes: size})
	if err != nil {
		t.Fatal(err)
	}
	held := file.files.Current().kept
	for id := range int64(count) {
		lookedUp(t, file, id+1)
	}
	for range 100 * keptShare {
		if _, ok := held.find(count); ok {
			break
		}
		lookedUp(t, file, count)
		held.menus.CleanUp()
	}
	if _, ok := held.find(count); !ok {
		t.Error("what is asked for all the time is not kept")
	}
	if got := held.menus.WeightedSize(); got > size || got < size/2 {
		t.Errorf("%d bytes are kept of at most %d", got, size)
	}
}
