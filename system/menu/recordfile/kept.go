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
	read  atomic.Uint64 // menus that were read from the file
}

const (
	// keptOverhead is what a menu takes beside its body, in bytes: its entry, its place in the hash table and
	// its share of what is known of how often menus are asked for. Rounded up.
	keptOverhead = 192
	// keptShare is which part of what is read from the file is kept. What is asked for often is kept soon, and
	// look-ups of far more menus than there is memory for cost little more than without.
	keptShare = 4
)

// newKept makes a memory for at most so many bytes, with none for 0.
func newKept(size int64) (*kept, error) {
	if size == 0 {
		return nil, nil //nolint:nilnil // nil keeps nothing
	}
	menus, err := otter.New(&otter.Options[int64, menu.Page]{
		MaximumWeight: uint64(size),
		Weigher:       func(_ int64, page menu.Page) uint32 { return uint32(len(page.Body) + keptOverhead) },
	})
	if err != nil {
		return nil, fmt.Errorf("make a memory for %d bytes of menus: %w", size, err)
	}
	return &kept{menus: menus}, nil
}

func (k *kept) find(id int64) (menu.Page, bool) {
	if k == nil {
		return menu.Page{}, false
	}
	return k.menus.GetIfPresent(id)
}

// add keeps a copy of what was read, or not.
func (k *kept) add(id int64, body []byte, tag uint64) {
	if k != nil && k.read.Add(1)%keptShare == 0 {
		k.menus.Set(id, menu.Page{Body: bytes.Clone(body), Tag: tag})
	}
}
