package websocket

import (
	"testing"
	"testing/synctest"
	"time"
)

// Connects that begin late because the server has not answered those before have waited for it,
// also those that are made up for afterwards.
func TestConnectsWaitForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		epoch := time.Now()
		g := &Group{config: Config{Now: func() time.Duration { return time.Since(epoch) }}, stopping: make(chan struct{})}
		p := &pacer{group: g, slots: make(chan struct{}, 1)}
		time.Sleep(time.Second)
		if !p.slot() || p.waited(0) {
			t.Error("the first connect waited, or was refused")
		}
		done := make(chan bool, 1)
		go func() { done <- p.slot() }()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		<-p.slots
		if !<-done || !p.waited(time.Second) || !p.waited(3*time.Second-1) || p.waited(3*time.Second) {
			t.Errorf("got a wait until %s, want 3s", p.heldTo)
		}
		go func() { done <- p.slot() }()
		synctest.Wait()
		close(g.stopping)
		if <-done {
			t.Error("a connect began after the end")
		}
	})
}
