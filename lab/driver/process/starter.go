package process

import (
	"os/exec"
	"runtime"
)

// starter starts processes, all from one thread that lives as long as it is
// open. The kernel's death signal (SysProcAttr.Pdeathsig) is sent when the
// thread that made the child ends, not the process; Go may end any thread but
// one that a goroutine has locked.
type starter struct {
	commands chan *exec.Cmd
	results  chan error
	ended    chan struct{}
}

func newStarter() *starter {
	s := &starter{commands: make(chan *exec.Cmd), results: make(chan error), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for cmd := range s.commands {
			s.results <- cmd.Start()
		}
	}()
	return s
}

// start is cmd.Start on the starter's thread. It may be called from several
// goroutines, but not after close.
func (s *starter) start(cmd *exec.Cmd) error {
	s.commands <- cmd
	return <-s.results
}

// close ends the thread. Children with a death signal must be gone.
func (s *starter) close() {
	close(s.commands)
	<-s.ended
}
