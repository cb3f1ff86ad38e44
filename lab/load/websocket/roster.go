package websocket

import (
	"slices"
	"sync"
	"sync/atomic"
)

// roster is who is a member of a room. Each client that ever was has a place in it.
type roster struct {
	now atomic.Pointer[members]

	mu     sync.Mutex
	places map[int]int // by client
}

// members is the clients that messages sent now are due at. It never changes: roster makes
// another one, and all messages between two changes share it.
type members struct {
	room    *roster
	bits    []uint64 // by place
	clients []int32  // at the places
	count   int
}

// seat is a client's place in a room.
type seat struct {
	room  *roster
	place int
}

func newRoster() *roster {
	r := &roster{places: map[int]int{}}
	r.now.Store(&members{room: r})
	return r
}

// seat gives a client its place.
func (r *roster) seat(client int) *seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, ok := r.places[client]
	if !ok {
		place = len(r.places)
		r.places[client] = place
		after := *r.now.Load()
		after.clients = append(after.clients, int32(client)) // those before look no further than their own end
		if need := (len(after.clients) + 63) / 64; need > len(after.bits) {
			after.bits = append(slices.Clone(after.bits), 0)
		}
		r.now.Store(&after)
	}
	return &seat{room: r, place: place}
}

// set makes who has a seat a member of its room or not. Nobody has no seat.
func (s *seat) set(member bool) {
	if s == nil {
		return
	}
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	after := *r.now.Load()
	word, bit := s.place/64, uint64(1)<<(s.place%64)
	if after.bits[word]&bit != 0 == member {
		return
	}
	after.bits = slices.Clone(after.bits)
	after.bits[word] ^= bit
	if after.count++; !member {
		after.count -= 2
	}
	r.now.Store(&after)
}

// has reports whether what is due at the members is due at a seat, and where its bit is.
func (m *members) has(s *seat) (word int, bit uint64, due bool) {
	if s == nil || s.room != m.room || s.place >= len(m.clients) {
		return 0, 0, false
	}
	word, bit = s.place/64, uint64(1)<<(s.place%64)
	return word, bit, m.bits[word]&bit != 0
}

// rooms are all rosters, by what the room is called.
type rooms struct {
	mu     sync.Mutex
	byName map[string]*roster
}

// of returns the roster of a room.
func (r *rooms) of(name string) *roster {
	r.mu.Lock()
	defer r.mu.Unlock()
	room, ok := r.byName[name]
	if !ok {
		room = newRoster()
		r.byName[name] = room
	}
	return room
}
