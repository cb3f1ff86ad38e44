package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The layouts of nodes: both versions, of runtimes that make groups themselves and of those that have
// systemd make them.
func TestContainersAreFoundInEveryLayout(t *testing.T) {
	t.Parallel()
	const (
		id    = "4f1de0b2c3a4958677889900aabbccddeeff00112233445566778899aabbccdd"
		other = "0f1de0b2c3a4958677889900aabbccddeeff00112233445566778899aabbccdd"
		uid   = "1b2c3d4e-0000-4000-8000-123456789abc"
		slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_123456789abc.slice/"
	)
	for name, dir := range map[string]string{
		"cgroupfs":                 "kubepods/burstable/pod" + uid + "/" + id,
		"cgroupfs below a root":    "nodes/n1/kubepods/pod" + uid + "/" + id,
		"cgroupfs of CRI-O":        "kubepods/burstable/pod" + uid + "/crio-" + id,
		"systemd":                  slice + "cri-containerd-" + id + ".scope",
		"systemd of CRI-O":         slice + "crio-" + id + ".scope",
		"systemd of Docker":        slice + "docker-" + id + ".scope",
		"systemd, kubelet's slice": "kubelet.slice/kubelet-" + slice + "cri-containerd-" + id + ".scope",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := func(root string, controllers ...string) {
				t.Helper()
				for _, c := range controllers {
					for _, d := range []string{dir, filepath.Dir(dir) + "/crio-conmon-" + id + ".scope", filepath.Dir(dir) + "/" + other, dir + "/inner-" + id} {
						if err := os.MkdirAll(filepath.Join(root, c, d), 0o755); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			wants := func(root string, want Paths) {
				t.Helper()
				found, err := Containers(root, []string{id, "none"})
				if err != nil || len(found) != 1 || found[id] != want {
					t.Errorf("got %+v, %v, want %+v", found, err, want)
				}
			}
			v2 := t.TempDir()
			made(v2, "")
			put(t, filepath.Join(v2, "cgroup.controllers"), "cpu memory\n")
			at := filepath.Join(v2, dir)
			wants(v2, Paths{2, at, at, at})

			v1 := t.TempDir()
			made(v1, "cpu", "cpuacct", "memory")
			wants(v1, Paths{1, filepath.Join(v1, "cpu", dir), filepath.Join(v1, "cpuacct", dir), filepath.Join(v1, "memory", dir)})

			joint := t.TempDir()
			made(joint, "cpu,cpuacct", "memory")
			for _, link := range []string{"cpu", "cpuacct"} {
				if err := os.Symlink("cpu,cpuacct", filepath.Join(joint, link)); err != nil {
					t.Fatal(err)
				}
			}
			wants(joint, Paths{1, filepath.Join(joint, "cpu,cpuacct", dir), filepath.Join(joint, "cpuacct", dir), filepath.Join(joint, "memory", dir)})
		})
	}
}

// Whoever may make groups may call one like that of a container. Which is meant cannot be told then.
func TestContainersOfSeveralGroupsAreNotFound(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory\n")
	for _, dir := range []string{"kubepods/api", "user.slice/docker-api.scope", "kubepods/db"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Containers(root, []string{"api", "db"}); err != nil || len(found) != 1 || found["db"].CPU != filepath.Join(root, "kubepods/db") {
		t.Errorf("got %+v, %v, want db alone", found, err)
	}
}

// A node that is a container itself has its groups a second time below themselves.
func TestAGroupThatIsMountedTwiceIsOne(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory\n")
	for _, dir := range []string{"kubelet/api", "docker/node/kubelet"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("mounted", func(t *testing.T) {
		t.Parallel()
		runtime.LockOSThread() // for good: the mount ends with the thread
		err := unix.Unshare(unix.CLONE_NEWNS)
		if errors.Is(err, unix.EPERM) && os.Getenv("CI") != "true" {
			t.Skip("this user may mount nothing")
		}
		if err == nil {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
				unix.Mount(filepath.Join(root, "kubelet"), filepath.Join(root, "docker/node/kubelet"), "", unix.MS_BIND, ""))
		}
		if err != nil {
			t.Fatal(err)
		}
		if found, err := Containers(root, []string{"api"}); err != nil || len(found) != 1 {
			t.Errorf("got %+v, %v", found, err)
		}
	})
}

// An agent is root without the right to look into what others have closed, which anybody may who has
// groups of their own.
func TestAGroupThatIsClosedIsPassedBy(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, filepath.Join(root, "cgroup.controllers"), "cpu memory\n")
	for _, dir := range []string{"kubepods/api", "closed"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	t.Run("without rights", func(t *testing.T) {
		t.Parallel()
		runtime.LockOSThread() // for good: the thread has no rights any more
		all := make([]unix.CapUserData, 2)
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &all[0]); err != nil {
			t.Fatal(err)
		}
		if found, err := Containers(root, []string{"api"}); err != nil || len(found) != 1 {
			t.Errorf("got %+v, %v", found, err)
		}
		if found, err := Containers(filepath.Join(root, "closed"), []string{"api"}); err == nil {
			t.Errorf("got %+v of a node that is closed", found)
		}
	})
}

func TestContainersAreNotFoundWhereNothingIsMounted(t *testing.T) {
	t.Parallel()
	if found, err := Containers(t.TempDir(), []string{"a"}); err == nil {
		t.Errorf("got %+v of an empty directory", found)
	}
}
