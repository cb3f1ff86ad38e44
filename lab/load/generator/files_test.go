package generator

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"loadstone/lab/load"
)

// What .proto files import is read as well.
func TestFilesOfAPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.proto"), filepath.Join(dir, "b.proto")
	for file, text := range map[string]string{a: `syntax = "proto3"; import "b.proto"; import "google/protobuf/any.proto";`, b: `syntax = "proto3";`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := load.Plan{Protos: []string{a}, TLS: load.TLS{CAFile: "/ca.pem"}}
	got, err := Files(&plan)
	if want := []string{"/ca.pem", a, b}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := Files(&load.Plan{Protos: []string{filepath.Join(dir, "none.proto")}}); err == nil {
		t.Error("a file that is not there has no error")
	}
}
