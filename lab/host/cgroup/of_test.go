package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestOfFindsTheGroupOfAProcess(t *testing.T) {
	t.Parallel()
	f := func(name, mountinfo, member string, want Paths, ok bool) {
		t.Helper()
		d := detector{mounts: parseMountinfo(mountinfo), members: parseMembership(member)}
		if got, gotOK := d.of(); gotOK != ok || ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", name, got, gotOK, want, ok)
		}
	}
	const root = "/sys/fs/cgroup"
	f("v1", separateV1, "4:memory:/docker/0a1b\n2:cpuacct:/docker/0a1b\n1:cpu:/docker/0a1b\n0::/\n",
		Paths{1, root + "/cpu/docker/0a1b", root + "/cpuacct/docker/0a1b", root + "/memory/docker/0a1b"}, true)
	f("v2", onlyV2, "0::/system.slice/docker-0a1b.scope\n",
		Paths{2, root + "/system.slice/docker-0a1b.scope", root + "/system.slice/docker-0a1b.scope", root + "/system.slice/docker-0a1b.scope"}, true)
	f("out of sight", containerV1, "5:cpu,cpuacct:/docker/ffff\n4:memory:/docker/ffff\n", Paths{}, false)
	f("outside of a name space of groups", onlyV2, "0::/../docker-0a1b.scope\n", Paths{}, false)
	f("a name of dots", onlyV2, "0::/..a\n", Paths{2, root + "/..a", root + "/..a", root + "/..a"}, true)
	f("no groups", "", "0::/\n", Paths{}, false)
}

func TestOfSaysWhyThereIsNone(t *testing.T) {
	t.Parallel()
	m := newMachine(t, containerV1, "")
	if _, err := Of(m.proc, m.sys, 7); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such process: got %v, want os.ErrNotExist", err)
	}
	if err := os.Mkdir(filepath.Join(m.proc, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(m.proc, "7", "cgroup"), "4:memory:/elsewhere\n")
	var un *UnavailableError
	if _, err := Of(m.proc, m.sys, 7); !errors.As(err, &un) {
		t.Errorf("out of sight: got %v, want an *UnavailableError", err)
	}
}
