package recordfile

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"loadstone/system/menu"
)

// kept are menus of one file that were looked up before, decompressed and checked; nil keeps none. What it
// does not have is read from the file.
type kept struct {
	menus *otter.Cache[int64, menu.Page]
	room  atomic.Int64  // bytes that nothing was kept in yet
	read  atomic.Uint64 // menus that were read from the file since there are none
}

const (
	// keptOverhead is what a menu takes beside its body, in bytes: its entry, its place in the hash table and
	// its share of what is known of how often menus are asked for. Rounded up.
	keptOverhead = 192
	// keptShare is which part of what is read from the file is kept once the memory is full. What is asked for
	// often is kept soon, and look-ups of far more menus than there is memory for cost little more than without.
	keptShare = 8
)

// newKept makes a memory for at most so many bytes, with none for 0.
func newKept(size int64) (*kept, error) {
	if size == 0 {
		return nil, nil //nolint:nilnil // nil keeps nothing
	}
	menus, err := otter.New(&otter.Options[int64, menu.Page]{
		MaximumWeight: uint64(size),
		Weigher:       func(_ int64, page menu.Page) uint32 { return uint32(weight(page.Body)) },
	})
	if err != nil {
		return nil, fmt.Errorf("make a memory for %d bytes of menus: %w", size, err)
	}
	k := &kept{menus: menus}
	k.room.Store(size)
	return k, nil
}

func weight(body []byte) int { return len(body) + keptOverhead }

func (k *kept) find(id int64) (menu.Page, bool) {
	if k == nil {
		return menu.Page{}, false
	}
	return k.menus.GetIfPresent(id)
}

// add keeps a copy of what was read, or not.
func (k *kept) add(id int64, body []byte, tag uint64) {
	if k == nil || k.room.Load() <= 0 && k.read.Add(1)%keptShare != 0 {
		return
	}
	k.room.Add(-int64(weight(body)))
	k.menus.Set(id, menu.Page{Body: bytes.Clone(body), Tag: tag})
}
