package driver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrDown is why something that was being done to an instance was cut short.
var ErrDown = errors.New("the system is being stopped")

// Acts is what is done to a running system, such as starting an instance again. It
// ends before the system is stopped.
type Acts struct {
	lifetime context.Context //nolint:containedctx // of what Begin begins: until End
	cancel   context.CancelFunc
	mu       sync.Mutex
	over     atomic.Bool // set below mu, so that nothing begins after it
	under    sync.WaitGroup
}

// NewActs returns one whose acts do not end with ctx, but have its values.
func NewActs(ctx context.Context) *Acts {
	a := &Acts{}
	a.lifetime, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return a
}

// Begin begins something that is done to the running system. done must be called
// at its end; End cuts it short by the context and waits for that.
func (a *Acts) Begin(ctx context.Context) (_ context.Context, done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() {
		return nil, nil, ErrDown
	}
	a.under.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(a.lifetime, func() { cancel(ErrDown) })
	return ctx, func() { unhook(); cancel(nil); a.under.Done() }, nil
}

// End lets no more begin, and waits for those under way.
func (a *Acts) End() {
	a.mu.Lock()
	a.over.Store(true)
	a.mu.Unlock()
	a.cancel()
	a.under.Wait()
}

// Over reports whether End was called.
func (a *Acts) Over() bool { return a.over.Load() }
