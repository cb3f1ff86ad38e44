package proposal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// start is the command that the service's image would start: that of its Compose file or
// else of its Dockerfile, as far as they are lists of arguments, which need no shell. It is
// nil if none is found.
func (s service) start(dir string) []string {
	entrypoint, command := dockerCommand(s.dockerfile(dir))
	if list := argv(s["entrypoint"]); list != nil {
		entrypoint, command = list, nil
	}
	if list := argv(s["command"]); list != nil {
		command = list
	}
	return slices.Concat(entrypoint, command)
}

// dockerfile is the path of the service's Dockerfile; empty if it is not built.
func (s service) dockerfile(dir string) string {
	context, file := "", "Dockerfile"
	switch build := s["build"].(type) {
	case string:
		context = build
	case map[string]any:
		context, _ = build["context"].(string)
		if name, ok := build["dockerfile"].(string); ok {
			file = name
		}
	}
	if context == "" {
		return ""
	}
	return filepath.Join(dir, context, file)
}

func argv(value any) []string {
	switch v := value.(type) {
	case []any:
		var out []string
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil
			}
			out = append(out, text)
		}
		return out
	case string:
		if strings.ContainsAny(v, `"'$|&;<>*\`) {
			return nil // for a shell
		}
		return strings.Fields(v)
	}
	return nil
}

// dockerCommand is what the last stage of a Dockerfile runs, where it is written as a list:
// ENTRYPOINT ["a"] and CMD ["b"].
func dockerCommand(path string) (entrypoint, command []string) {
	text, err := os.ReadFile(path)
	if path == "" || err != nil {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var list []string
		_ = json.Unmarshal([]byte(rest), &list) // a text is for a shell, and is left out
		switch strings.ToUpper(word) {
		case "FROM":
			entrypoint, command = nil, nil
		case "ENTRYPOINT":
			entrypoint, command = list, nil
		case "CMD":
			command = list
		}
	}
	return entrypoint, command
}
