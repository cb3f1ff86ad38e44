package host

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

// Machine says what a machine is.
type Machine struct {
	CPU            string `json:"cpu"`
	Cores          int    `json:"cores"`
	MemoryBytes    uint64 `json:"memory_bytes"`
	Kernel         string `json:"kernel"`
	LimitsEnforced bool   `json:"limits_enforced"`
	CgroupVersion  int    `json:"cgroup_version"` // 0 if none is used
	// CoresAwake says whether idle cores were kept from halting, so that
	// wake-ups cost the same at every load.
	CoresAwake bool `json:"cores_awake"`
}

// Boot names one start of a machine's kernel. Whatever runs on the same machine, in whatever
// name spaces, has the same one; it is empty if it is not known.
func Boot(procRoot string) string {
	return strings.TrimSpace(text(filepath.Join(procRoot, "sys/kernel/random/boot_id")))
}

// This describes this machine. What it cannot find out stays empty; that limits
// cannot be enforced is worth a warning.
func This() (Machine, []string) {
	m := Machine{CPU: cpuModel(), Cores: runtime.NumCPU()}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		m.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // narrower on 32 bit
	}
	tree, err := cgroup.Detect("/proc", "/")
	if err != nil {
		return m, []string{"CPU and memory limits are not enforced, so no component can be told apart by its share: " + err.Error()}
	}
	m.CgroupVersion, m.LimitsEnforced = tree.Version(), true
	return m, nil
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
