package recipe

import (
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

func TestVersitygwsCommand(t *testing.T) {
	t.Parallel()
	f := func(change func(s *topology.Service), address string, want ...string) {
		t.Helper()
		in := testInstance(t, topology.Volume{Name: "objects", Target: "/objects"})
		in.Volumes = map[string]string{"objects": "/home/me/objects"}
		in.Files["versitygw"] = "/tools/versitygw"
		in.Service.Environment = map[string]string{}
		change(&in.Service)
		r, _ := Find("versity/versitygw:v1.8.0")
		p, err := r.Start(t.Context(), in)
		if err != nil || !slices.Equal(p.Command, want) || p.Env["VGW_PORT"] != address || !strings.HasPrefix(p.Env["PATH"], "/tools:") {
			t.Errorf("got %+v, %v, want %q and %s", p, err, want, address)
		}
	}
	const own, other = "127.77.1.9:7070", "127.77.1.9:81"
	f(func(s *topology.Service) { s.Arguments = []string{"posix", "/objects"} }, own, "/tools/versitygw", "posix", "/home/me/objects")
	f(func(s *topology.Service) { s.Arguments = []string{"--port", ":81", "--quiet", "posix", "/objects/a"} }, own,
		"/tools/versitygw", "--port", other, "--quiet", "posix", "/home/me/objects/a")
	f(func(s *topology.Service) { s.Arguments = []string{"-p=81", "posix", "/objects"} }, own, "/tools/versitygw", "-p="+other, "posix", "/home/me/objects")
	f(func(s *topology.Service) {
		s.Environment = map[string]string{"VGW_BACKEND": "posix", "VGW_BACKEND_ARG": "/objects", "VGW_ARGS": "--quiet --region x", "VGW_PORT": "81"}
	}, other, "/tools/versitygw", "--quiet", "--region", "x", "posix", "/home/me/objects")
	// A script that reads keys from a file; the rest is its own.
	f(func(s *topology.Service) { s.Entrypoint = []string{"sh", "-c", "exec versitygw posix /objects"} }, own, "sh", "-c", "exec versitygw posix /objects")

	for image, entrypoint := range map[string]string{"versity/versitygw": "/app/other", "redis": "sh"} {
		in := testInstance(t)
		in.Service.Entrypoint = []string{entrypoint}
		r, _ := Find(image)
		if _, err := r.Start(t.Context(), in); err == nil || !strings.Contains(err.Error(), "cannot replace it with [\""+entrypoint+"\"]") {
			t.Errorf("%s: got %v", image, err)
		}
	}
}
