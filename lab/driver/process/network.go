package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Every run has a network of its own, 127.77.x.0/24, and each instance an
// address in it, so that every service keeps its usual port and neither
// replicas nor runs at the same time collide. All of 127.0.0.0/8 reaches the
// loopback device without setting anything up.
const maxNetworks = 254

// claim is the right to use one network. It is a socket bound to a name in the
// abstract namespace, which the kernel frees when the last descriptor of it is
// closed. Unlike a lock file, such a name belongs to the same network
// namespace as the addresses that it stands for, needs no directory that all
// users share, and leaves nothing behind. The guardian holds it too, so that a
// network is free only when the instances in it are gone.
type claim struct {
	network int
	file    *os.File
}

func claimNetwork() (*claim, error) {
	for n := 1; n <= maxNetworks; n++ {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("claim a loopback network: %w", err)
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@loadstone/127.77.%d.0", n)})
		if err == nil {
			return &claim{network: n, file: os.NewFile(uintptr(fd), "loopback network")}, nil
		}
		if errClose := unix.Close(fd); errClose != nil || !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("claim a loopback network: %w", errors.Join(err, errClose))
		}
	}
	return nil, fmt.Errorf("claim a loopback network: all %d are in use by other runs", maxNetworks)
}

// address is that of the i-th instance of the run, from 0.
func (c *claim) address(i int) string { return fmt.Sprintf("127.77.%d.%d", c.network, i+1) }
