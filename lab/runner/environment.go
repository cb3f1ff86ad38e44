package runner

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"loadstone/lab/archive"
	"loadstone/lab/host/cgroup"
)

// Environment describes this machine. What it cannot find out stays empty; a
// machine on which limits cannot be enforced is worth a warning.
func Environment(version string) (archive.Environment, []string) {
	env := archive.Environment{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Driver: "process", Version: version, Go: runtime.Version(),
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		env.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		env.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // narrower on 32 bit
	}
	tree, err := cgroup.Detect("/proc", "/")
	if err != nil {
		return env, []string{"CPU and memory limits are not enforced, so no component can be told apart by its share: " + err.Error()}
	}
	env.CgroupVersion, env.LimitsEnforced = tree.Version(), true
	return env, nil
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
