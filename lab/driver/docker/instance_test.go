package docker

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
)

// A container may have ended before anybody looks at its process, which is in the root group
// then, as are those of other machines' containers.
func TestWhatHasEndedIsNotOnAnotherMachine(t *testing.T) {
	t.Parallel()
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ended.Wait() }) // a zombie until then
	p, err := guardian.Identify("/proc", ended.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); p.Alive("/proc"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
	}
	for pid, want := range map[int]bool{ended.Process.Pid: false, os.Getpid(): true} {
		run := &Running{config: setup{Driver: Driver{Settings: driver.DefaultSettings()}}}
		in := &instance{run: run, id: "0123456789abcdef"}
		if _, group := in.openGroup(driver.NewLife(), pid); group != nil {
			t.Errorf("process %d: its group is taken for the container's", pid)
		}
		if got := run.unseen.Load(); got != want || len(run.Warnings()) > 0 != want {
			t.Errorf("process %d: unseen is %v, warnings %q; want %v", pid, got, run.Warnings(), want)
		}
	}
}
