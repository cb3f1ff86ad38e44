package driver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
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

// machineIDFile has what machines of one name differ in (machine-id(5)).
const machineIDFile = "/etc/machine-id"

// LabHost names the machine and the pid namespace of this lab. A daemon or a cluster may
// serve labs of several, and only one from the same can tell whether another still
// lives. A name alone is not enough: many machines are called localhost, and the first pid
// namespace has the same number on all of them.
func LabHost(procRoot string) string { return labHost(procRoot, machineIDFile) }

func labHost(procRoot, idFile string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if id, err := os.ReadFile(idFile); err == nil {
		const enough = 4
		sum := sha256.Sum256([]byte(topology.Self + string(id))) // it is not to be given to others as it is
		host += "-" + hex.EncodeToString(sum[:enough])
	}
	space, err := os.Readlink(filepath.Join(procRoot, "self", "ns", "pid"))
	if err != nil {
		space = "unknown"
	}
	return host + "/" + space
}

// StartGuardian has a run guarded before there is anything of it. What the guardian says is
// kept beside the logs; it holds the files as long as it lives.
func (s Settings) StartGuardian(ctx context.Context, logDir string, hold ...*os.File) (*guardian.Guardian, error) {
	return guardian.Start(ctx, guardian.Config{Argv: s.Guardian, LogFile: filepath.Join(logDir, "guardian.log"), Hold: hold})
}
