package plant

import (
	"sync"
	"sync/atomic"
	"time"
)

// seconds is a duration that only grows, for a metric.
type seconds struct{ nanos atomic.Int64 }

func (s *seconds) add(d time.Duration) { s.nanos.Add(int64(d)) }
func (s *seconds) value() float64      { return time.Duration(s.nanos.Load()).Seconds() }

// lock is one mutex and what it cost: how long it was held, and waited for.
type lock struct {
	mu           sync.Mutex
	busy, waited seconds
}

// do runs work under the lock.
func (l *lock) do(work func()) {
	asked := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	began := time.Now()
	l.waited.add(began.Sub(asked))
	work()
	l.busy.add(time.Since(began))
}

// wire transmits one answer after the other. It reserves time in advance: each
// answer gets the next free interval, and waits until that is over. So the pace
// is exact however late a sleeper is woken.
type wire struct {
	perSecond    float64
	busy, waited seconds

	mu   sync.Mutex
	free time.Time // when all that was reserved has been transmitted
}

func (w *wire) transmit(bytes int) {
	takes := time.Duration(float64(bytes) / w.perSecond * float64(time.Second))
	w.mu.Lock()
	now := time.Now()
	wait := max(0, w.free.Sub(now))
	w.free = now.Add(wait + takes)
	w.mu.Unlock()
	w.waited.add(wait)
	time.Sleep(wait + takes)
	w.busy.add(takes)
}

// pool is a number of slots that can be changed while it is in use. Who waits
// is served in order.
type pool struct {
	waited seconds

	mu      sync.Mutex
	size    int
	inUse   int
	waiting []chan struct{} // closed for who is given a slot
}

func (p *pool) acquire() {
	p.mu.Lock()
	if p.inUse < p.size && len(p.waiting) == 0 {
		p.inUse++
		p.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	asked := time.Now()
	<-turn
	p.waited.add(time.Since(asked))
}

func (p *pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	p.admit()
}

// resize changes the number of slots. Those in use beyond it are not taken away.
func (p *pool) resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = n
	p.admit()
}

func (p *pool) admit() {
	for p.inUse < p.size && len(p.waiting) > 0 {
		p.inUse++
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
}

func (p *pool) now() (size, inUse, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size, p.inUse, len(p.waiting)
}
