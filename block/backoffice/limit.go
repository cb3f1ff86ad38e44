package backoffice

import (
	"context"
	"net/http"
	"time"
)

// How often one may try to sign in: so many times at once, and then once in a while.
const (
	triesOfName    = 5 // one account from one address
	triesOfAddress = 30
	nameAgain      = time.Minute
	addressAgain   = 10 * time.Second
)

// maxKeys bounds those that are remembered, some 2 MB.
const maxKeys = 10_000

// Checking a password takes a core for a quarter of a second: few are checked at a time, and
// a few more may wait, not for longer than hashTimeout.
const (
	hashing     = 2
	mayWait     = 16
	hashTimeout = 4 * time.Second
)

var errBusy = &Refusal{http.StatusServiceUnavailable, "Nothing was changed: too much is under way. Go back and try again in a moment."}

// turns lets few do at a time what takes long.
type turns struct{ waiting, working chan struct{} }

func newTurns() turns {
	return turns{make(chan struct{}, hashing+mayWait), make(chan struct{}, hashing)}
}

// do calls f when it is its turn; if that does not come, the error is errBusy.
func (t turns) do(ctx context.Context, f func()) error {
	select {
	case t.waiting <- struct{}{}:
	default:
		return errBusy
	}
	defer func() { <-t.waiting }()
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	select {
	case t.working <- struct{}{}:
	case <-ctx.Done():
		return errBusy
	}
	defer func() { <-t.working }()
	f()
	return nil
}
