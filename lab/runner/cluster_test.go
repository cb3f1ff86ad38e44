package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load/generator"
)

var errAsked = errors.New("asked for generators")

// asked is a system in a cluster that has no generators.
type asked struct {
	image string
	n     int
	files []string
}

func (a *asked) Generators(_ context.Context, image string, n int, files []string, _ io.Writer) ([]generator.Link, error) {
	a.image, a.n, a.files = image, n, files
	return nil, errAsked
}

// Generators in a cluster get the files of the variant's load.
func TestGeneratorsInAClusterGetTheFilesOfTheLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"compose.yaml": "services: {web: {image: x}}\n",
		"users.csv":    "id\n1\n",
		"experiment.yaml": `name: a
system: compose.yaml
entry: web
variants: {one: {}}
load: {scenarios: {s: {executor: constant-arrival-rate, request: "GET /{user.id}", feed: {user: {csv: users.csv}}}}}
slo: {http_req_duration: [p(95)<100]}
measure: capacity
trials: 1
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exp, err := experiment.Load(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	k := &execution{Config: Config{Experiment: exp, Cluster: ClusterGenerators{Count: 2, Image: "here"}}}
	var a asked
	_, err = k.clusterGroup(t.Context(), &a, &archive.Trial{Planned: archive.Planned{Variant: "one"}}, io.Discard)
	if want := []string{filepath.Join(dir, "users.csv")}; !errors.Is(err, errAsked) || a.image != "here" || a.n != 2 || !slices.Equal(a.files, want) {
		t.Errorf("got %v, %+v; want %q", err, a, want)
	}
}
