package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"loadstone/block/spelling"
	"loadstone/internal/project"
	"loadstone/internal/shipped"
	"loadstone/lab/experiment"
	"loadstone/system/chat"
	"loadstone/system/feed"
	"loadstone/system/menu"
	"loadstone/system/patterns"
	"loadstone/system/results"
)

// shippedSystem is a system that this program has within itself.
type shippedSystem struct {
	files func() fs.FS
	forms []form // the first is what its name alone means
}

// form is one of a system's Compose files.
type form struct{ name, file string }

// shippedSystems are the systems by name.
func shippedSystems() map[string]shippedSystem {
	return map[string]shippedSystem{
		"chat":     {files: chat.Files, forms: []form{{"full", "compose.yaml"}, {"embedded", "compose.embedded.yaml"}}},
		"feed":     {files: feed.Files, forms: []form{{"full", "compose.yaml"}, {"embedded", "compose.embedded.yaml"}}},
		"menu":     {files: menu.Files, forms: []form{{"full", "compose.yaml"}, {"embedded", "compose.embedded.yaml"}, {"cassandra", "compose.cassandra.yaml"}}},
		"patterns": {files: patterns.Files, forms: []form{{"full", "compose.all.yaml"}, {"embedded", "compose.all.embedded.yaml"}}},
		"results":  {files: results.Files, forms: []form{{"full", "compose.yaml"}, {"embedded", "compose.embedded.yaml"}}},
	}
}

// names are those of the system's forms.
func (s shippedSystem) names() []string {
	var names []string
	for _, f := range s.forms {
		names = append(names, f.name)
	}
	return names
}

func shippedNames() []string { return slices.Sorted(maps.Keys(shippedSystems())) }

// foundSystem is what arguments mean.
type foundSystem struct {
	files       []string
	overlay     []byte
	overlayName string
	variant     string
	suffix      string // of the project's name
	lean        bool   // without profiles that it was not asked for
}

// findSystem reads SYSTEM|COMPOSE.yaml|EXPERIMENT.yaml [VARIANT].
func (a *app) findSystem(args []string) (foundSystem, error) {
	target, variant := args[0], ""
	if len(args) > 1 {
		variant = args[1]
	}
	if s, ok := shippedSystems()[target]; ok {
		return a.findShipped(target, variant, s)
	}
	if !isPath(target) {
		return foundSystem{}, usagef("there is no system %q; %s, or the path of a Compose file or of an experiment", target, suggest(target, "system", shippedNames()))
	}
	path, err := composeIn(target)
	if err != nil {
		return foundSystem{}, err
	}
	isExperiment, err := holdsExperiment(path)
	switch {
	case err != nil:
		return foundSystem{}, err
	case isExperiment:
		return findVariant(path, variant)
	case variant != "":
		return foundSystem{}, usagef("%s is a Compose file, and only experiments have variants; leave %q out", path, variant)
	}
	return foundSystem{files: []string{path}}, nil
}

func (a *app) findShipped(name, variant string, s shippedSystem) (foundSystem, error) {
	for i, f := range s.forms {
		if f.name != variant && (variant != "" || i > 0) {
			continue
		}
		cache, err := a.cacheDir()
		if err != nil {
			return foundSystem{}, err
		}
		dir, err := shipped.Unpack(s.files(), cache, name)
		if err != nil {
			return foundSystem{}, err
		}
		found := foundSystem{files: []string{filepath.Join(dir, f.file)}}
		if i > 0 { // two forms may be up at once, and their data differ
			found.suffix = "-" + f.name
		}
		return found, nil
	}
	return foundSystem{}, usagef("%s has no form %q; %s", name, variant, suggest(variant, "form", s.names()))
}

// findVariant is one of an experiment's variants, by default its baseline.
func findVariant(path, variant string) (foundSystem, error) {
	exp, err := experiment.Load(path)
	if err != nil {
		return foundSystem{}, err
	}
	for i, v := range exp.Variants {
		if v.Name == variant || variant == "" && i == 0 {
			return foundSystem{files: exp.SystemPaths(), overlay: v.Overlay, overlayName: "variant " + v.Name, variant: v.Name, lean: true}, nil
		}
	}
	return foundSystem{}, usagef("%s has no variant %q; %s", path, variant, suggest(variant, "variant", exp.VariantNames()))
}

// isPath tells a path from a name.
func isPath(target string) bool {
	if strings.ContainsRune(target, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(target)) || target == "." {
		return true
	}
	info, err := os.Stat(target)
	return err == nil && info.Mode().IsRegular()
}

// composeIn is path itself, or the Compose file in the directory path.
func composeIn(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", usagef("read the system: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	names := []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"} // as Compose looks
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return filepath.Join(path, name), nil
		}
	}
	return "", usagef("there is no Compose file in %s: none of %s", path, strings.Join(names, ", "))
}

// holdsExperiment tells an experiment from a Compose file: only the one has a
// system, only the other services.
func holdsExperiment(path string) (bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, usagef("read the system: %w", err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return false, nil //nolint:nilerr // Compose says better what is wrong
	}
	return keys["system"] != nil && keys["services"] == nil, nil
}

// suggest is what to write in place of a wrong word.
func suggest(word, what string, known []string) string {
	hint := ""
	if near, ok := spelling.Nearest(word, known); ok {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	if len(known) == 1 {
		return fmt.Sprintf("%sthe only %s is %s", hint, what, known[0])
	}
	return fmt.Sprintf("%sthe %ss are %s", hint, what, strings.Join(known, ", "))
}

const stateUsage = "$XDG_STATE_HOME/loadstone/up, ~/.local/state/loadstone/up, or for root /var/lib/loadstone/up"

// stateDir keeps what is up. Of root it is not below the home directory: servers
// with users of their own have to get to their volumes.
func (a *app) stateDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	dir, err := a.userDir("XDG_STATE_HOME", "/var/lib", ".local/state")
	if err != nil {
		return "", fmt.Errorf("%w, or give --dir", err)
	}
	return filepath.Join(dir, "up"), nil
}

// cacheDir has the files of shipped systems, which such servers read as well.
func (a *app) cacheDir() (string, error) {
	dir, err := a.userDir("XDG_CACHE_HOME", "/var/cache", ".cache")
	return filepath.Join(dir, "systems"), err
}

func (a *app) userDir(variable, ofRoot, inHome string) (string, error) {
	if dir := a.Getenv(variable); filepath.IsAbs(dir) { // the specification ignores others
		return filepath.Join(dir, "loadstone"), nil
	}
	if os.Geteuid() == 0 {
		return filepath.Join(ofRoot, "loadstone"), nil
	}
	home := a.Getenv("HOME")
	if home == "" {
		return "", errors.New("no directory for files: set HOME or " + variable)
	}
	return filepath.Join(home, inHome, "loadstone"), nil
}

// completeTargets completes systems and files, then forms and variants.
func (a *app) completeTargets(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return shippedNames(), cobra.ShellCompDirectiveDefault // and files
	case 1:
		return variantsOf(args[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// variantsOf are the forms of a system or the variants of an experiment.
func variantsOf(target string) []string {
	if s, ok := shippedSystems()[target]; ok {
		return s.names()
	}
	exp, err := experiment.Load(target)
	if err != nil {
		return nil
	}
	return exp.VariantNames()
}

// completeProjects completes what is up.
func (a *app) completeProjects(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, err := a.stateDir(cmd.Flag("dir").Value.String())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	alive, err := project.Store{Dir: dir}.Alive()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range alive {
		names = append(names, alive[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
