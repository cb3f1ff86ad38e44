// Package cgrouptest has control groups of this machine for the tests of other packages.
package cgrouptest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	return group(tb, limits, strings.ToLower(strings.ReplaceAll(tb.Name(), "/", "-")))
}

func group(tb testing.TB, limits cgroup.Limits, name string) *cgroup.Group {
	tb.Helper()
	tree := Tree(tb)
	name = fmt.Sprintf("loadstone-test-%d-%s", os.Getpid(), name)
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

// Container is a control group that is called like that of a container with an id, and a directory
// in which it is found as such; see cgroup.Containers.
func Container(tb testing.TB, limits cgroup.Limits) (g *cgroup.Group, root, id string) {
	tb.Helper()
	// Another run of the same test may be under way on this machine.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", os.Getpid(), tb.Name()))
	id = hex.EncodeToString(sum[:])
	g = group(tb, limits, id)
	p := g.Paths()
	if p.Version == 2 {
		return g, filepath.Dir(p.CPU), id
	}
	root = tb.TempDir()
	for controller, dir := range map[string]string{"cpu": p.CPU, "cpuacct": p.CPUAcct, "memory": p.Memory} {
		if err := os.Symlink(filepath.Dir(dir), filepath.Join(root, controller)); err != nil {
			tb.Fatal(err)
		}
	}
	return g, root, id
}
