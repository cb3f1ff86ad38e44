// Package cgrouptest has control groups of this machine for the tests of other packages.
package cgrouptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/host/cgroup"
)

// Tree is this machine's tree. Without one the test is skipped, but not in CI: there a
// missing right would hide that limits do not work.
func Tree(tb testing.TB) *cgroup.Tree {
	tb.Helper()
	tree, err := cgroup.Detect("/proc", "/")
	if err != nil {
		if os.Getenv("CI") == "true" { //nolint:forbidigo // only tests call this
			tb.Fatalf("CI must be able to set limits: %v", err)
		}
		tb.Skipf("this machine sets no limits: %v", err)
	}
	return tree
}

// Group is a control group with limits. All that is in it ends with the test.
func Group(tb testing.TB, limits cgroup.Limits) *cgroup.Group {
	tb.Helper()
	tree := Tree(tb)
	name := fmt.Sprintf("loadstone-test-%d-%s", os.Getpid(), strings.ToLower(strings.ReplaceAll(tb.Name(), "/", "-")))
	group, err := tree.Create(name, limits)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(group.Close(), cgroup.Destroy(context.Background(), tree.Paths(name))); err != nil {
			tb.Error(err)
		}
	})
	return group
}

// Container is a directory in which a group is found as that of the container with an id; see
// cgroup.Containers.
func Container(tb testing.TB, group *cgroup.Group) (root, id string) {
	tb.Helper()
	p := group.Paths()
	name := filepath.Base(p.CPU)
	id = name[strings.LastIndexByte(name, '-')+1:]
	if p.Version == 2 {
		return filepath.Dir(p.CPU), id
	}
	root = tb.TempDir()
	for controller, dir := range map[string]string{"cpu": p.CPU, "cpuacct": p.CPUAcct, "memory": p.Memory} {
		if err := os.Symlink(filepath.Dir(dir), filepath.Join(root, controller)); err != nil {
			tb.Fatal(err)
		}
	}
	return root, id
}
