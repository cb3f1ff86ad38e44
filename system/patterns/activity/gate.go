package activity

import (
	"errors"
	"fmt"

	"loadstone/block/commit"
)

// Gate bounds how many are inside at once. It is for stores whose clients would
// let any number wait.
type Gate struct{ slots chan struct{} }

// NewGate returns a gate for at most n, which is at least 1.
func NewGate(n int) Gate { return Gate{make(chan struct{}, n)} }

// Enter reports whether there was room. Who entered must Leave.
func (g Gate) Enter() bool {
	select {
	case g.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave makes room for another.
func (g Gate) Leave() { <-g.slots }

// Inside is how many are inside now.
func (g Gate) Inside() int { return len(g.slots) }

// OfCommit gives an error of a group commit the identity that Store promises.
func OfCommit(err error) error {
	switch {
	case errors.Is(err, commit.ErrFull):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, commit.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return err
	}
}
