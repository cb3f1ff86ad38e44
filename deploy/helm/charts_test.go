package helm

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// systems are the charts.
var systems = []string{"chat", "feed", "menu", "patterns", "results"}

// versions are the first Kubernetes that charts are for, and the one of scripts/kubernetes.
var versions = []string{"1.30.0", "1.36.3"}

// namespace is where everything is rendered for.
const namespace = "shop"

var update = flag.Bool("update", false, "write testdata/outlines.txt again")

type values = map[string]any

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm tells of each link that it follows
	if name := filepath.Base(os.Args[0]); name == "helm" || name == "kubectl" {
		if err := standIn(name, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// forms are the values with which each chart is tested.
func forms(t *testing.T) map[string]map[string]values {
	t.Helper()
	text, err := os.ReadFile("testdata/forms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]values
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// each runs a test for each form of each chart.
func each(t *testing.T, test func(t *testing.T, system, form string, v values)) {
	t.Helper()
	all := forms(t)
	for _, system := range systems {
		for _, form := range slices.Sorted(maps.Keys(all[system])) {
			t.Run(system+"/"+form, func(t *testing.T) {
				t.Parallel()
				test(t, system, form, all[system][form])
			})
		}
	}
}

// render is what `helm template` does: the objects of a release, each in YAML.
func render(system, release, version string, v values) ([][]byte, error) {
	c, err := loader.LoadDir(filepath.Clean(system))
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, v); err != nil {
		return nil, err
	}
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kube
	if !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, kube.String()) {
		return nil, fmt.Errorf("%s is for Kubernetes %s", system, c.Metadata.KubeVersion)
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	full, err := chartutil.ToRenderValues(c, v, options, capabilities)
	if err != nil {
		return nil, err
	}
	made, err := engine.Engine{}.Render(c, full)
	if err != nil {
		return nil, err
	}
	var objects [][]byte
	for _, name := range slices.Sorted(maps.Keys(made)) {
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(made[name])))
		for {
			text, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if len(bytes.TrimSpace(text)) > 0 {
				objects = append(objects, text)
			}
		}
	}
	return objects, nil
}

func TestLint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, system, _ string, v values) {
		for _, version := range versions {
			kube, err := chartutil.ParseKubeVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.AllWithKubeVersion(system, v, namespace, kube).Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("%s: %s", version, m)
				}
			}
		}
	})
}

func TestLinksAreToTheLibrary(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		got, err := os.Readlink(filepath.Join(system, "charts", "common"))
		if err != nil || got != "../../common" {
			t.Errorf("%s: got %q, %v", system, got, err)
		}
	}
}
