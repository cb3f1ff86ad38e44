package driver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

// RunPrefix begins the name of every run that something else than this machine's kernel
// keeps: a daemon's project, a cluster's name space.
const RunPrefix = topology.Self + "-"

// RunName names a run after this process, so that a later one can tell whether it still
// lives; see RunOwner.
func RunName(procRoot string) (string, error) {
	self, err := guardian.Identify(procRoot, os.Getpid())
	if err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	return fmt.Sprintf("%s%d-%d-%s", RunPrefix, self.PID, self.Start, hex.EncodeToString(random)), nil
}

// RunOwner is the lab that a run of a name belongs to.
func RunOwner(name string) (guardian.Process, bool) {
	var p guardian.Process
	var random string
	rest, ok := strings.CutPrefix(name, RunPrefix)
	if !ok {
		return p, false
	}
	n, err := fmt.Sscanf(rest, "%d-%d-%8s", &p.PID, &p.Start, &random)
	return p, err == nil && n == 3 && name == fmt.Sprintf("%s%d-%d-%s", RunPrefix, p.PID, p.Start, random)
}

// LabHost names the machine and the pid namespace of this lab. A daemon or a cluster may
// serve labs of several, and only one from the same can tell whether another still
// lives.
func LabHost(procRoot string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	space, err := os.Readlink(filepath.Join(procRoot, "self", "ns", "pid"))
	if err != nil {
		space = "unknown"
	}
	return host + "/" + space
}
