package experiment

import (
	"os"
	"path/filepath"
	"strings"
)

// Files are paths of Compose files.
type Files []string

// composeFile is what the path of a Compose file leads to. In place of a
// directory the file in it is meant.
const composeFile = "a Compose file"

// inDirectory says which Compose file in a directory was meant, as well as that
// can be known.
func inDirectory(dir, written string) string {
	for _, name := range []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(written, name)
		}
	}
	return filepath.Join(written, "compose.yaml")
}

// named are the files in a sentence.
func (f Files) named() string { return strings.Join(f, " with ") }
