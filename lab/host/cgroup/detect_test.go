package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const (
	separateV1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs none rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup none rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup none rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw
`
	containerV1 = `712 704 0:31 /docker/0a1b /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup none rw,cpu,cpuacct
713 704 0:34 /docker/0a1b /sys/fs/cgroup/memory rw,nosuid - cgroup none rw,memory
`
	onlyV2 = `30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 none rw,nsdelegate
`
)

// machine is a directory that looks like the parts of a machine that Detect
// reads.
type machine struct {
	proc, sys string
}

func newMachine(t *testing.T, mountinfo, self string) machine {
	t.Helper()
	m := machine{proc: t.TempDir(), sys: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(m.proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(m.proc, "self", "mountinfo"), mountinfo)
	put(t, filepath.Join(m.proc, "self", "cgroup"), self)
	return m
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// v2Group makes a version 2 group with the given controllers. The root has no
// cgroup.type.
func (m machine) v2Group(t *testing.T, rel, controllers, subtree, procs string) {
	t.Helper()
	dir := filepath.Join(m.sys, "sys/fs/cgroup", rel)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "cgroup.controllers"), controllers+"\n")
	put(t, filepath.Join(dir, "cgroup.subtree_control"), subtree)
	put(t, filepath.Join(dir, "cgroup.procs"), procs)
	if rel != "" {
		put(t, filepath.Join(dir, "cgroup.type"), "domain\n")
	}
}

func anyone(string) bool { return true }

func TestDetectFindsTheGroupsToMakeOthersIn(t *testing.T) {
	t.Parallel()
	f := func(name string, build func(t *testing.T) machine, may func(m machine) func(string) bool, want Paths) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t)
			tree, err := detect(m.proc, m.sys, may(m))
			if err != nil {
				t.Fatalf("got error %v, want %+v", err, want)
			}
			got := tree.base
			for _, dir := range []*string{&got.CPU, &got.CPUAcct, &got.Memory} {
				*dir = strings.TrimPrefix(*dir, m.sys)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	all := func(machine) func(string) bool { return anyone }
	below := func(rel string) func(machine) func(string) bool {
		return func(m machine) func(string) bool {
			return func(path string) bool {
				return strings.HasPrefix(path, filepath.Join(m.sys, "sys/fs/cgroup", rel))
			}
		}
	}
	const root = "/sys/fs/cgroup"

	f("v1, separate hierarchies, below our own group in each", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, separateV1, "4:memory:/jobs/7\n2:cpuacct:/\n1:cpu:/\n0::/\n")
	}, all, Paths{1, root + "/cpu", root + "/cpuacct", root + "/memory/jobs/7"})

	f("v1 in a container, the mount's root taken off", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, containerV1, "5:cpu,cpuacct:/docker/0a1b/inner\n4:memory:/docker/0a1b\n")
	}, all, Paths{1, root + "/cpu,cpuacct/inner", root + "/cpu,cpuacct/inner", root + "/memory"})

	f("v1 with our own group out of sight", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, containerV1, "5:cpu,cpuacct:/elsewhere\n4:memory:/\n")
	}, all, Paths{1, root + "/cpu,cpuacct", root + "/cpu,cpuacct", root + "/memory"})

	f("v2 as root, the root group", func(t *testing.T) machine {
		t.Helper()
		m := newMachine(t, onlyV2, "0::/user.slice/session-2.scope\n")
		m.v2Group(t, "", "cpuset cpu io memory pids", "cpu memory\n", "1\n2\n")
		m.v2Group(t, "user.slice", "cpu memory", "", "")
		m.v2Group(t, "user.slice/session-2.scope", "cpu memory", "", "99\n")
		return m
	}, all, Paths{2, root, root, root})

	f("v2 as a user, the nearest delegated group above", func(t *testing.T) machine {
		t.Helper()
		m := newMachine(t, onlyV2, "0::/user.slice/user@1000.service/app.slice/run-1.scope\n")
		m.v2Group(t, "", "cpu memory", "cpu memory\n", "1\n")
		m.v2Group(t, "user.slice", "cpu memory", "cpu memory", "")
		m.v2Group(t, "user.slice/user@1000.service", "cpu memory pids", "cpu memory pids\n", "")
		m.v2Group(t, "user.slice/user@1000.service/app.slice", "cpu memory pids", "", "")
		m.v2Group(t, "user.slice/user@1000.service/app.slice/run-1.scope", "cpu memory", "", "99\n")
		return m
	}, below("user.slice/user@1000.service"), Paths{
		2, root + "/user.slice/user@1000.service/app.slice",
		root + "/user.slice/user@1000.service/app.slice", root + "/user.slice/user@1000.service/app.slice",
	})
}

func TestDetectSaysWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	f := func(name string, build func(t *testing.T) machine, may bool, wantReason, wantFix string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t)
			_, err := detect(m.proc, m.sys, func(string) bool { return may })
			var un *UnavailableError
			if !errors.As(err, &un) {
				t.Fatalf("got %v, want an *UnavailableError", err)
			}
			if !strings.Contains(un.Reason, wantReason) || !strings.Contains(un.Fix, wantFix) {
				t.Errorf("got %q, want one with %q and %q", un.Error(), wantReason, wantFix)
			}
		})
	}
	f("no permission, v1", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, separateV1, "1:cpu:/\n")
	}, false, "may not make control groups", "run as root")

	f("no permission, v2", func(t *testing.T) machine {
		t.Helper()
		m := newMachine(t, onlyV2, "0::/user.slice/session-2.scope\n")
		m.v2Group(t, "", "cpu memory", "cpu memory", "1\n")
		m.v2Group(t, "user.slice", "cpu memory", "", "")
		return m
	}, false, "may not make control groups", "systemd-run --user --scope -p Delegate=yes")

	f("controller not delegated", func(t *testing.T) machine {
		t.Helper()
		m := newMachine(t, onlyV2, "0::/user@1000.service/app.slice/x.scope\n")
		m.v2Group(t, "", "memory pids", "memory", "1\n")
		m.v2Group(t, "user@1000.service", "memory pids", "memory", "")
		m.v2Group(t, "user@1000.service/app.slice", "memory pids", "memory", "")
		return m
	}, true, "the cpu controller is not given", "Delegate=cpu memory")

	f("read-only mount", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, strings.Replace(onlyV2, " rw,nosuid", " ro,nosuid", 1), "0::/\n")
	}, true, "read-only", "--privileged")

	f("a container's own group holds its processes", func(t *testing.T) machine {
		t.Helper()
		m := newMachine(t, onlyV2, "0::/\n")
		m.v2Group(t, "", "cpu memory", "", "1\n7\n")
		put(t, filepath.Join(m.sys, "sys/fs/cgroup/cgroup.type"), "domain\n")
		return m
	}, true, "holds processes of its own", "--cgroupns=host")

	f("one controller only", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n", "1:cpu:/\n")
	}, true, "cpuacct controller is not mounted", "mount")

	f("nothing mounted", func(t *testing.T) machine {
		t.Helper()
		return newMachine(t, "", "")
	}, true, "no control groups are mounted", "mount")

	f("no proc", func(t *testing.T) machine {
		t.Helper()
		return machine{proc: t.TempDir(), sys: t.TempDir()}
	}, true, "cannot see", "mount")
}

func TestMountinfoUndoesEscapes(t *testing.T) {
	t.Parallel()
	got := parseMountinfo(`36 35 0:9 /a\040b /mnt/c\134d rw - cgroup2 none rw` + "\n")
	want := []mount{{root: "/a b", point: `/mnt/c\d`, unified: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(separateV1, "/jobs/7")
	f.Add(containerV1, "/docker/0a1b/inner")
	f.Add("36 35 0:9 / / rw - cgroup", "/..")
	f.Add(`1 2 3 \04 \999 rw - cgroup2 x \`, "")
	f.Fuzz(func(t *testing.T, text, own string) {
		for _, m := range parseMountinfo(text) {
			if rel, inside := m.inMount(own); inside && rel != "" && !filepath.IsLocal(rel) {
				t.Errorf("group %q shows outside of its mount: %q", own, rel)
			}
		}
		parseMembership(text)
	})
}
