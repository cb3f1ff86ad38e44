package cgroup

import (
	"os"
	"path/filepath"
	"testing"
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

func TestContainersAreNotFoundWhereNothingIsMounted(t *testing.T) {
	t.Parallel()
	if found, err := Containers(t.TempDir(), []string{"a"}); err == nil {
		t.Errorf("got %+v of an empty directory", found)
	}
}
