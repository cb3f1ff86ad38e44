package host

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// overflowing makes a network name space in which a full backlog turns connections away, and
// returns the id of a thread in it, which ends with the test.
func overflowing(t *testing.T) (thread int) {
	t.Helper()
	ready, end := make(chan error), make(chan struct{})
	t.Cleanup(func() { close(end) })
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends here
		thread = unix.Gettid()
		ready <- overflow()
		<-end
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return thread
}

func overflow() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	address := &unix.SockaddrInet4{Port: 8890, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(fd, address); err != nil {
		return err
	}
	if err := unix.Listen(fd, 0); err != nil {
		return err
	}
	for range 8 { // who is turned away tries again in a second, and is counted by then
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(c)
		if err := unix.Connect(c, address); err != nil && err != unix.EINPROGRESS {
			return err
		}
	}
	return nil
}

// What full backlogs turn away is counted in the network that they are in.
func TestOverflowsInNetworksOfTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks; CI is root")
	}
	thread := overflowing(t)
	w := watcher{readers: map[string]*reader{"api-1": {}}}
	before := w.slow(nil).ListenOverflows
	with := w.slow([]Target{{Name: "api-1", PID: thread, OwnNetwork: true}}).ListenOverflows
	if with <= before {
		t.Errorf("got %d with a network of its own that turns connections away, and %d without", with, before)
	}
	// They are not forgotten when the instance has ended.
	if after := w.slow([]Target{{Name: "api-1", OwnNetwork: true}}).ListenOverflows; after < with {
		t.Errorf("got %d, and %d once it had ended", with, after)
	}
}
