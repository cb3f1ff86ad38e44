package network

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Files are those of an instance that say how it finds others. They are mounted over
// the host's.
type Files struct {
	dir string
}

// Files makes the files of an instance in a directory: hosts are the addresses by name.
func (n *Network) Files(dir string, hosts map[string]netip.Addr) (Files, error) {
	f := Files{dir: dir}
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&b, "%s %s\n", hosts[name], name)
	}
	switches, err := os.ReadFile("/etc/nsswitch.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("make its network's files: %w", err)
	}
	texts := map[string]string{
		"hosts":         b.String(),
		"resolv.conf":   fmt.Sprintf("nameserver %s\noptions ndots:0\n", n.address(nameServer)),
		"nsswitch.conf": switchHosts(string(switches)),
	}
	for name, text := range texts {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return f, fmt.Errorf("make its network's files: %w", err)
		}
		if err := os.Chmod(file, 0o644); err != nil { // whatever the umask
			return f, fmt.Errorf("make its network's files: %w", err)
		}
	}
	return f, nil
}

// switchHosts has the C library look for hosts in the files and then ask the name
// server, and not a service of the host, which knows other names.
func switchHosts(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "hosts:") {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String() + "hosts: files dns\n"
}

// mounted are the files that are mounted over. The last one may be missing.
var mounted = [...]string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"}

// mount mounts them, in the mount name space of this thread. A file that the host does
// not have cannot be mounted over; programs then use its defaults, which is right for
// nsswitch.conf only.
func (f Files) mount() error {
	for i, file := range mounted {
		err := unix.Mount(filepath.Join(f.dir, filepath.Base(file)), file, "", unix.MS_BIND, "")
		if errors.Is(err, unix.ENOENT) && i == len(mounted)-1 {
			continue
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", file, err)
		}
	}
	return nil
}
