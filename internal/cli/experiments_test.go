package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"loadstone/lab/experiment"
	"loadstone/lab/topology"
)

// TestExperimentsAreValid reads all that are shipped, and the system of each of their
// variants. What they find is for a quiet machine.
func TestExperimentsAreValid(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../system/*/experiments/*.yaml")
	if err != nil || len(paths) < 30 {
		t.Fatalf("found %d experiments (%v), want all", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(data, []byte("services:")) || bytes.Contains(data, []byte("\nservices:")) {
			continue // a Compose file
		}
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(path)))+"/"+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			exp, err := experiment.Parse(path, data)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, v := range exp.Variants {
				system, err := topology.Load(t.Context(), topology.Config{
					ComposeFiles: exp.SystemPaths(), Profiles: exp.Profiles, Overlay: v.Overlay, OverlayName: "variant " + v.Name,
				})
				if err != nil {
					t.Errorf("variant %s: %v", v.Name, err)
					continue
				}
				running := map[string]int{}
				for _, s := range system.Services {
					names = append(names, s.Name)
					running[s.Name] = s.Replicas
				}
				wanted := []string{exp.Entry}
				for _, f := range exp.Faults {
					wanted = append(wanted, f.Kill+f.Stop+f.Pause+f.Service)
				}
				for _, name := range wanted {
					if running[name] == 0 {
						t.Errorf("variant %s: the service %s does not run", v.Name, name)
					}
				}
				for _, w := range system.Warnings {
					t.Errorf("variant %s: %s", v.Name, w)
				}
			}
			if err := exp.CheckServices(names); err != nil {
				t.Error(err)
			}
		})
	}
}
