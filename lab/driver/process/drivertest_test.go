package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/drivertest"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

func TestTheDriverSuite(t *testing.T) {
	dir := t.TempDir()
	program := drivertest.Build(t, dir)
	_, err := cgroup.Detect("/proc", "/")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("CI must be able to set limits: %v", err)
	}
	drivertest.Run(t, drivertest.Driver{
		Image: topology.Self, Limits: err == nil,
		Up: func(ctx context.Context, s *topology.System, dir string) (driver.Running, error) {
			c := testConfig(s)
			c.Self, c.LogDir, c.VolumeDir = program, filepath.Join(dir, "logs"), filepath.Join(dir, "volumes")
			return c.Up(ctx, c.Config)
		},
		Lab: func(composeFile, dir string) []string {
			text, err := json.Marshal(labConfig{composeFile, filepath.Join(dir, "logs"), filepath.Join(dir, "volumes"), "/"})
			if err != nil {
				t.Fatal(err)
			}
			return []string{os.Args[0], "lab", string(text)}
		},
		Left: func(_ *testing.T, lab int) []string {
			left := groupsOf(lab, "")
			for _, pid := range marked(lab, "") {
				left = append(left, fmt.Sprint("process ", pid))
			}
			return left
		},
	})
}
