package docker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// A process that exits runs on for a while, and is in the root group meanwhile.
func TestWhatIsAboutToEndIsNotOnAnotherMachine(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]bool{"4194308": false, "4194304": true} { // with PF_EXITING, and without
		proc := t.TempDir()
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"self/mountinfo": string(mounts), "77/cgroup": "5:memory:/\n4:cpu,cpuacct:/\n0::/\n",
			"77/stat": "77 (job) R 1 77 77 0 -1 " + flags + " 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
		} {
			file := filepath.Join(proc, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		settings := driver.DefaultSettings()
		settings.ProcRoot = proc
		run := &Running{config: setup{Driver: Driver{Settings: settings}}}
		in := &instance{run: run, id: "0123456789abcdef"}
		in.openGroup(driver.NewLife(), 77)
		if got := run.unseen.Load(); got != want {
			t.Errorf("flags %s: unseen is %v, want %v", flags, got, want)
		}
	}
}
