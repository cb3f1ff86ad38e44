package network

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Thread is a thread of this process that runs what it is given. It ends with its
// goroutine, and only then: what the kernel ties to a thread (name spaces, and the
// death signal of the children that it started) holds for as long as it is open.
type Thread struct {
	tid   int
	tasks chan func()
	ended chan struct{}
}

// NewThread starts a thread in the name spaces of this process.
func NewThread() *Thread {
	t := &Thread{tasks: make(chan func()), ended: make(chan struct{})}
	ready := make(chan struct{})
	go t.run(ready)
	<-ready
	return t
}

// run never unlocks its thread, so that the thread ends with it. The first thread of a
// process never ends: it is held until another goroutine has got another thread.
func (t *Thread) run(ready chan<- struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		taken := make(chan struct{})
		go t.run(taken)
		<-taken
		runtime.UnlockOSThread()
		close(ready)
		return
	}
	defer close(t.ended)
	t.tid = unix.Gettid()
	close(ready)
	for task := range t.tasks {
		task()
	}
}

// Do runs f on the thread and returns its error. It may be called from several
// goroutines, but not after Close.
func (t *Thread) Do(f func() error) error {
	result := make(chan error)
	t.tasks <- func() { result <- f() }
	return <-result
}

// Close ends the thread.
func (t *Thread) Close() {
	close(t.tasks)
	<-t.ended
}
