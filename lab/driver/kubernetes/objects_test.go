package kubernetes

import (
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"loadstone/lab/topology"
)

var update = flag.Bool("update", false, "write the golden manifests again")

func loaded(t *testing.T, c topology.Config) *topology.System {
	t.Helper()
	s, err := topology.Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// system is that of a Compose file in a directory of its own.
func system(t *testing.T, compose string) *topology.System {
	t.Helper()
	file := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(compose), 0o600); err != nil {
		t.Fatal(err)
	}
	return loaded(t, topology.Config{ComposeFiles: []string{file}})
}

// all are the objects in the order in which they are made.
func (o *Objects) all() []runtime.Object {
	list := []runtime.Object{o.Namespace}
	for _, x := range o.ConfigMaps {
		list = append(list, x)
	}
	for _, x := range o.Secrets {
		list = append(list, x)
	}
	for _, x := range o.Claims {
		list = append(list, x)
	}
	for _, x := range o.Services {
		list = append(list, x)
	}
	for _, x := range o.Pods {
		list = append(list, x)
	}
	for _, x := range o.Jobs {
		list = append(list, x)
	}
	return list
}

// manifest is a system's, with the warnings as comments.
func manifest(t *testing.T, s *topology.System) []byte {
	t.Helper()
	o, err := Map(t.Context(), s, "loadstone-1-2-abcdef01", "host/pid")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, w := range o.Warnings {
		out.WriteString("# " + w + "\n")
	}
	for _, x := range o.all() {
		text, err := yaml.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

// readable copies a directory of files that everybody may read, whatever the umask was when this one
// was made.
func readable(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// What is private here is private there.
func TestPrivateFilesAreSecrets(t *testing.T) {
	t.Parallel()
	const text = `services: {api: {image: x, volumes: ["./open:/open:ro", "./closed:/closed:ro", "./secrets/open:/named:ro", "./mixed:/mixed:ro"]}}`
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{"open": 0o644, "closed": 0o640, "secrets/open": 0o644, "mixed/open": 0o644, "mixed/closed": 0o600} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := Map(t.Context(), loaded(t, topology.Config{ComposeFiles: []string{file}}), "loadstone-1-2-abcdef01", "host/pid")
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]bool{}
	for i, v := range o.Pods[0].Spec.Volumes {
		secret[o.Pods[0].Spec.Containers[0].VolumeMounts[i].MountPath] = v.Secret != nil
	}
	if want := map[string]bool{"/open": false, "/closed": true, "/named": true, "/mixed": true}; !maps.Equal(secret, want) {
		t.Errorf("secrets are %v, want %v", secret, want)
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	file := filepath.Join(readable(t, "testdata/shop"), "compose.yaml")
	for name, c := range map[string]topology.Config{
		"shop":          {ComposeFiles: []string{file}},
		"shop-replicas": {ComposeFiles: []string{file}, Overlay: []byte(`services: {web: {environment: {CACHE: "on"}, deploy: {replicas: 3}}}`), OverlayName: "variants.replicas"},
		"results":       {ComposeFiles: []string{"../../../system/results/compose.embedded.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantGolden(t, name, manifest(t, loaded(t, c)))
		})
	}
}

// wantGolden compares a manifest, which has to be valid, with that of testdata.
func wantGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	wantValid(t, got)
	golden := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is made now; look at the difference after go test -update", golden)
	}
}

// wantValid wants each document to be an object of the API, without a field that it does
// not have.
func wantValid(t *testing.T, manifest []byte) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	n := 0
	for _, doc := range strings.Split(string(manifest), "---\n")[1:] {
		if _, _, err := strict.Decode([]byte(doc), nil, nil); err != nil {
			t.Errorf("%v in:\n%s", err, doc)
		}
		n++
	}
	if n == 0 {
		t.Error("there is no document: nothing was validated")
	}
	if _, _, err := strict.Decode([]byte("apiVersion: v1\nkind: Pod\nspec: {replicas: 1}"), nil, nil); err == nil {
		t.Error("a field that no pod has is not refused: nothing was validated")
	}
}

func TestWhatHasNoCounterpartIsAMistakeWithItsPlace(t *testing.T) {
	t.Parallel()
	f := func(compose, want string) {
		t.Helper()
		_, err := Map(t.Context(), system(t, compose), "loadstone-1-2-abcdef01", "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one sentence with %q", err, want)
		}
	}
	f("services:\n  my_api: {image: x}", "compose.yaml:2:3: service my_api: in Kubernetes a service's name has")
	f("services:\n  api: {build: .}", "compose.yaml:2:3: service api: it has no image")
	f("services:\n  api: {image: x, user: nobody}", `compose.yaml:2:19: service api: Kubernetes knows users and groups by number only; write that of "nobody"`)
	f("services:\n  api: {image: x, x-link: {delay: 5ms}}", "compose.yaml:2:19: service api: it has an x-link, which is for local processes; remove it")
	f("services:\n  api: {image: x, volumes: [{type: npipe, source: x, target: /x}]}", "service api: a volume of type npipe has no counterpart")
	f("services:\n  api: {image: x, volumes: [__:/x]}\nvolumes: {__: {}}", "compose.yaml:3:11: volume __: there is no letter or digit in its name")
}

func TestFilesThatAreTooManyAreRefused(t *testing.T) {
	t.Parallel()
	s := system(t, `services: {api: {image: x, volumes: ["./large:/large:ro"]}}`)
	if err := os.WriteFile(filepath.Join(s.Dir, "large"), make([]byte, filesLimit+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Map(t.Context(), s, "loadstone-1-2-abcdef01", ""); err == nil || !strings.Contains(err.Error(), "are more than 1000 KiB") {
		t.Errorf("got %v", err)
	}
}

// A change of its limits must not change a pod's class, whatever the factor.
func TestNoPodIsEverOfTheClassGuaranteed(t *testing.T) {
	t.Parallel()
	cpus, memory := 0.25, uint64(1)
	for _, factor := range []float64{0.001, 0.5, 1, 1.5} {
		r := resources(topology.Limits{CPUs: &cpus, Memory: &memory}, factor)
		limit, request := r.Limits[corev1.ResourceCPU], r.Requests[corev1.ResourceCPU]
		if request.Cmp(limit) > 0 || limit.MilliValue() < 1 {
			t.Errorf("%g: got request %s and limit %s of CPU", factor, request.String(), limit.String())
		}
	}
	memory = 1 << 30
	r := resources(topology.Limits{CPUs: &cpus, Memory: &memory}, 1)
	limit, request := r.Limits[corev1.ResourceMemory], r.Requests[corev1.ResourceMemory]
	if request.Cmp(limit) >= 0 {
		t.Errorf("got request %s and limit %s of memory", request.String(), limit.String())
	}
}
