package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/generator"
	"loadstone/lab/load/loadtest"
)

// mounted are the files of a pod as its node puts them into a directory.
func (w *world) mounted(namespace, name string) (string, error) {
	pod, err := w.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	dir := w.t.TempDir()
	if mounts := pod.Spec.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].Name != pod.Spec.Volumes[0].Name || mounts[0].MountPath != filesDir {
		w.t.Errorf("got mounts %+v", mounts)
	}
	for _, source := range pod.Spec.Volumes[0].Projected.Sources {
		object, err := w.CoreV1().Secrets(namespace).Get(context.Background(), source.Secret.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, item := range source.Secret.Items {
			file := filepath.Join(dir, item.Path)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return "", err
			}
			if err := os.WriteFile(file, object.Data[item.Key], 0o600); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// moved is an input in which one directory stands for another, as in the pod.
func moved(in io.Reader, from, to string) *io.PipeReader {
	r, out := io.Pipe()
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if _, err := out.Write(append(bytes.ReplaceAll(lines.Bytes(), []byte(from), []byte(to)), '\n')); err != nil {
				return
			}
		}
		_ = out.CloseWithError(lines.Err())
	}()
	return r
}

// Files that a load is made with are where its generators are.
func TestGeneratorsOfAClusterHaveTheFilesOfTheLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	picture := []byte("\x89PNG\r\n\x1a\n\xff\xfe")
	for name, text := range map[string][]byte{"users.csv": []byte("id,name\n17,Ann\n23,Bo\n"), "photo.png": picture} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrong := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var sent []byte
		var file multipart.File
		file, header, err := r.FormFile("photo")
		if err == nil {
			sent, err = io.ReadAll(file)
		}
		if r.URL.Path != "/17" && r.URL.Path != "/23" || err != nil || !bytes.Equal(sent, picture) || header.Filename != "photo.png" {
			select {
			case wrong <- r.URL.Path + ": " + string(sent):
			default:
			}
		}
	}))
	defer server.Close()
	plan := loadtest.OpenPlan(server.URL, 50, 500*time.Millisecond, 16)
	s := &plan.Scenarios[0]
	s.Feed = map[string]feed.Feed{"user": {CSV: &feed.File{Path: filepath.Join(dir, "users.csv")}}}
	s.Steps[0].Request = load.Request{Method: "POST", Path: "/{user.id}", Multipart: []load.FormField{{Name: "photo", File: filepath.Join(dir, "photo.png")}}}

	w := newWorld(t, nil).withNodes(2)
	w.attachTo = func(ctx context.Context, namespace, pod string, s streams) error {
		dir, err := w.mounted(namespace, pod)
		if err != nil {
			return err
		}
		in := moved(s.in, filesDir, dir)
		defer in.Close()
		return generator.Serve(ctx, in, s.out)
	}
	files, err := generator.Files(&plan)
	if err != nil {
		t.Fatal(err)
	}
	links, err := w.generating(t.Context(), 2, files...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := generator.Join(t.Context(), links)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // which the pods have of their own
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	r, err := g.Run(t.Context(), plan, nil)
	if err != nil || r.Failed > 0 || r.Requests == 0 || r.Offered != loadtest.Due(plan) {
		t.Errorf("offered %d of %d, %d of %d failed, %v", r.Offered, loadtest.Due(plan), r.Failed, r.Requests, err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	select {
	case what := <-wrong:
		t.Errorf("a request was %q", what)
	default:
	}
}

// As few Secrets as there can be hold files, none more than the API takes.
func TestFilesAreSpreadOverSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sized := func(name string, size int) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	paths := []string{sized("a", filesLimit/2), sized("b", filesLimit/2), sized("c", 1), sized("d", filesLimit), sized("e", 0), dir + "/./a"}
	if err := CheckFiles(paths); err != nil {
		t.Error(err)
	}
	job := generators("loadstone-1-2-abcdef01", "loadstone", 1)
	all, err := carry(&job.Spec.Template.Spec, job.Namespace, paths)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var manifest bytes.Buffer
	for i, object := range all {
		size, keys := 0, []string{}
		for _, item := range job.Spec.Template.Spec.Volumes[0].Projected.Sources[i].Secret.Items {
			size += len(object.Data[item.Key])
			keys = append(keys, filepath.Base(item.Path))
		}
		if size > filesLimit || len(keys) != len(object.Data) {
			t.Errorf("%s has %d bytes in %d files, of which %d are mounted", object.Name, size, len(object.Data), len(keys))
		}
		got = append(got, strings.Join(keys, " "))
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		manifest.WriteString("---\n" + string(text))
	}
	if want := "a b, c, d e"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	text, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	wantValid(t, append(manifest.Bytes(), "---\n"+string(text)...))

	large := sized("large.csv", filesLimit+1)
	want := "the load is made with the file " + large + " of 1001 KiB, and what is taken along to pods is in a Secret, which holds 1000 KiB; take a part of it"
	_, errCarry := carry(&corev1.PodSpec{Containers: make([]corev1.Container, 1)}, "", []string{large})
	for _, err := range []error{CheckFiles([]string{large}), errCarry} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := CheckFiles([]string{filepath.Join(dir, "none")}); err == nil {
		t.Error("a file that is not there can be taken along")
	}
}
