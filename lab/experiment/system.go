package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// composeFiles reads the path of a Compose file, or a list of them.
func (f field) composeFiles() Files {
	if !f.given() {
		return nil
	}
	if f.n.kind != list {
		if path := f.composeFile(); path != "" {
			return Files{path}
		}
		return nil
	}
	if len(f.n.items) == 0 {
		f.errorf(f.n, "system is an empty list; write %s", f.example)
	}
	var out Files
	for _, item := range f.n.items {
		if !f.plain(item) {
			continue
		}
		one := f
		one.n = item
		if path := one.composeFile(); path != "" {
			out = append(out, path)
		}
	}
	return out
}

// composeFile reads one path, and has it looked for when the experiment is
// loaded.
func (f field) composeFile() string {
	if f.file("a Compose file") == "" {
		return ""
	}
	// Directories get a word of their own: the file in them is what is meant.
	last := &f.files[len(f.files)-1]
	last.compose = true
	return f.n.text
}

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

// profiles reads a list of names.
func (f field) profiles() []string {
	if !f.given() {
		return nil
	}
	if f.n.kind != list || len(f.n.items) == 0 {
		f.wrong("a list of names")
		return nil
	}
	var out []string
	for i, item := range f.n.items {
		one := f
		one.n, one.key = item, fmt.Sprintf("profile %d", i+1)
		if f.plain(item) && one.text() != "" && f.validName(item, "profile", f.example) {
			out = append(out, item.text)
		}
	}
	return out
}
