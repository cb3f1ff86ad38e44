package moderation

import (
	"slices"
	"sync"
)

// kinds are the reactions that there are, in the order in which they are told.
var kinds = [...]string{"heart", "laugh", "clap", "wow", "sad", "fire"}

// Counts are the reactions of a window, by kind.
type Counts [len(kinds)]int

// Reactions counts the reactions of all rooms. No reaction is ever kept. It is safe for concurrent use.
type Reactions struct {
	mu    sync.Mutex
	rooms map[int64]*Counts
}

// NewReactions returns one that has counted nothing.
func NewReactions() *Reactions { return &Reactions{rooms: map[int64]*Counts{}} }

// Add counts a reaction, or is ErrReaction. It is called for rooms with somebody in them.
func (r *Reactions) Add(room int64, kind string) error {
	i := slices.Index(kinds[:], kind)
	if i < 0 {
		return ErrReaction
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.rooms[room]
	if c == nil {
		c = &Counts{}
		r.rooms[room] = c
	}
	c[i]++
	return nil
}

// Take ends a window: it returns what was counted since the last time, by room. It is the
// caller's.
func (r *Reactions) Take() map[int64]*Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rooms) == 0 {
		return nil // and not the map to which the next one is added
	}
	all := r.rooms
	r.rooms = map[int64]*Counts{}
	return all
}
