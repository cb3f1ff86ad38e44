package plant

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// heap is memory that is kept, in small pieces that refer to each other, as caches and
// indexes are: the collector has to look at each.
type heap struct {
	kept *piece
	last atomic.Pointer[[]byte]
	each int
}

const pieceBytes = 64

type piece struct {
	next *piece
	_    [pieceBytes - 8]byte
}

func newHeap(g Garbage) *heap {
	h := &heap{each: g.EachBytes}
	for range g.KeptBytes / pieceBytes {
		h.kept = &piece{next: h.kept}
	}
	debug.SetMemoryLimit(g.LimitBytes)
	return h
}

// use makes what a request needs; what the one before needed is garbage then.
func (h *heap) use() {
	made := make([]byte, h.each)
	h.last.Store(&made)
}

// collected is how much CPU time collecting took, and the program itself, as of the last collection.
func (h *heap) collected() (collecting, rest float64) {
	s := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(s)
	return s[0].Value.Float64(), s[1].Value.Float64()
}
