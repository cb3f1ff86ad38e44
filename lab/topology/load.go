package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/goccy/go-yaml"
)

// Config says what to load.
type Config struct {
	// ComposeFiles are merged in order, as by `docker compose -f A -f B`. Paths
	// in any of them are relative to the directory of the first.
	ComposeFiles []string
	// Overlay is a Compose override in YAML, merged over the files; empty for
	// none. OverlayName is what errors call it.
	Overlay     []byte
	OverlayName string
	// Env holds the variables that the files may use. They take precedence over
	// those of a .env beside the first file, as in Compose.
	Env map[string]string
	// CPUsEach is the CPU limit of each service that states none, in cores; 0 leaves it
	// without. Jobs are left alone: no load meets them.
	CPUsEach float64
	// Profiles are those to enable. COMPOSE_PROFILES is not looked at, neither
	// in Env nor in .env, so that what an experiment measures does not depend
	// on where it is run; ask EnabledProfiles for what it says.
	Profiles []string
}

// EnabledProfiles are the profiles that COMPOSE_PROFILES enables, in Env or else
// in the .env beside the first file, as in Compose.
func (c *Config) EnabledProfiles() ([]string, error) {
	l, err := newLoad(*c, nil)
	if err != nil {
		return nil, err
	}
	var profiles []string
	for name := range strings.SplitSeq(l.env["COMPOSE_PROFILES"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			profiles = append(profiles, name)
		}
	}
	return profiles, nil
}

// System is what a Compose file describes, complete and checked.
type System struct {
	Name string
	Dir  string // of the first Compose file, absolute
	// Services are in dependency order: each comes after those it depends on.
	Services []Service
	Volumes  []string // names of the named volumes in use, sorted
	// Warnings say what of the file changes what runs and is not honoured.
	Warnings []string
	// Network is x-network: OwnNetwork, Loopback, or empty if the file leaves it to the
	// driver.
	Network string
	// Unaddressed are the services with a port that are told neither where to listen nor
	// where others are, sorted: they run where each instance has a network of its own.
	// Resolve does not find them.
	Unaddressed []string
	// Unbound are the programs that are not told where to listen, sorted: they may at every
	// address of the machine. Resolve does not find them.
	Unbound []string
	// BareNames are warnings for where there are no such networks: services that are
	// named as Docker knows them.
	BareNames []string

	config Config
}

// Overlaid says whether an overlay was merged over the files.
func (s *System) Overlaid() bool { return !blank(s.config.Overlay) }

// Source is what the system was loaded from.
func (s *System) Source() Config { return s.config }

// Load reads and checks a system. Every error is one sentence that begins with
// the name of the file, or of the overlay, that is wrong, and for a file with
// the line and column, where they are known; what is wrong with what is written
// is a *MistakeError. An overlay that names a service which the file does not
// have wraps an *UnknownServiceError.
func Load(ctx context.Context, c Config) (*System, error) {
	l, err := newLoad(c, nil)
	if err != nil {
		return nil, err
	}
	system, err := l.system(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := l.raw(ctx)
	if err != nil {
		return nil, err
	}
	used := variables(raw)
	l.findHosts(system, raw, used)
	system.Warnings = append(system.Warnings, system.variableWarnings(used, l.env)...)
	return system, nil
}

// Resolve loads the system again with vars over the variables that it was
// loaded with. The result has no warnings that Load did not have.
func (s *System) Resolve(ctx context.Context, vars map[string]string) (*System, error) {
	l, err := newLoad(s.config, vars)
	if err != nil {
		return nil, err
	}
	return l.system(ctx)
}

// Without is the system without the named services. What depends on one of them
// no longer waits for it, and finds the file's default in place of its address.
func (s *System) Without(names []string) *System {
	left := *s
	left.Services = nil
	for _, service := range s.Services {
		if slices.Contains(names, service.Name) {
			continue
		}
		service.DependsOn = slices.DeleteFunc(slices.Clone(service.DependsOn), func(d Dependency) bool {
			return slices.Contains(names, d.Service)
		})
		left.Services = append(left.Services, service)
	}
	return &left
}

// overlayFile is the name of a file that is none: what compose-go calls the
// overlay.
const overlayFile = ".loadstone-overlay.yaml"

// load is one reading of a system.
type load struct {
	config Config
	dir    string
	env    map[string]string
	// files are the Compose files and then the overlay, if there is one; names
	// are what errors call them.
	files []types.ConfigFile
	names []string
}

func newLoad(c Config, vars map[string]string) (*load, error) {
	if len(c.ComposeFiles) == 0 {
		return nil, errors.New("load a system: no Compose file is given")
	}
	l := &load{config: c, env: maps.Clone(c.Env)}
	if l.env == nil {
		l.env = map[string]string{}
	}
	for _, name := range c.ComposeFiles {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("%s: find the Compose file: %w", name, err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the Compose file: %w", err)
		}
		l.add(name, types.ConfigFile{Filename: path, Content: text})
	}
	l.dir = filepath.Dir(l.files[0].Filename)
	if err := l.addDotEnv(); err != nil {
		return nil, err
	}
	maps.Copy(l.env, vars)
	if !blank(c.Overlay) {
		name := c.OverlayName
		if name == "" {
			name = "overlay of " + c.ComposeFiles[0]
		}
		l.add(name, types.ConfigFile{Filename: filepath.Join(l.dir, overlayFile), Content: c.Overlay})
	}
	return l, nil
}

func (l *load) add(name string, file types.ConfigFile) {
	l.files, l.names = append(l.files, file), append(l.names, name)
}

// blank says whether YAML holds nothing, which an overlay may and a Compose
// file may not. What is no YAML at all is not blank.
func blank(text []byte) bool {
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return false
	}
	mapping, ok := value.(map[string]any)
	return value == nil || ok && len(mapping) == 0
}

// addDotEnv reads the .env beside the first Compose file, if there is one.
func (l *load) addDotEnv() error {
	path := filepath.Join(l.dir, ".env")
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // no such file is the usual case
	}
	vars, err := dotenv.GetEnvFromFile(l.env, []string{path})
	if err != nil {
		return explain(path, err)
	}
	maps.Copy(vars, l.env)
	l.env = vars
	return nil
}

// details gives compose-go its own copy of the variables: it adds to them.
func (l *load) details(files ...types.ConfigFile) types.ConfigDetails {
	return types.ConfigDetails{WorkingDir: l.dir, ConfigFiles: files, Environment: maps.Clone(l.env)}
}

// options are those of every reading. A variable without a value would be
// logged by compose-go once per reading; variableWarnings reports it once.
func (l *load) options(o *loader.Options) {
	o.Profiles = l.config.Profiles
	o.SetProjectName(projectName(l.dir), false)
	o.Interpolate.Substitute = func(text string, m template.Mapping) (string, error) {
		return template.SubstituteWithOptions(text, m, template.WithoutLogging)
	}
}

func projectName(dir string) string {
	if name := loader.NormalizeProjectName(filepath.Base(dir)); name != "" {
		return name
	}
	return Self
}

// model reads files into the merged Compose model, validated against its
// schema but not yet for consistency.
func (l *load) model(ctx context.Context, files ...types.ConfigFile) (map[string]any, error) {
	return guard(func() (map[string]any, error) {
		return loader.LoadModelWithContext(ctx, l.details(files...), l.options)
	})
}

// guard turns a panic into an error: compose-go panics on some values of the
// wrong type, such as a number for the path of an env_file.
func guard[T any](read func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a value does not have the type that Compose requires there (%v)", p)
		}
	}()
	return read()
}

// layerModel reads a file as it stands, without what it leaves to those that it
// is merged over. It is validated on its own as well, because merging passes
// over some values of the wrong type.
func (l *load) layerModel(ctx context.Context, file types.ConfigFile) (map[string]any, error) {
	return guard(func() (map[string]any, error) {
		return loader.LoadModelWithContext(ctx, l.details(file), l.options, func(o *loader.Options) {
			o.SkipNormalization, o.SkipDefaultValues = true, true
			o.SkipExtends, o.SkipInclude, o.ResolvePaths = true, true, false
		})
	})
}

// system merges the files, one after the other so that an error is blamed on
// the file that brought it, and converts the result.
func (l *load) system(ctx context.Context) (*System, error) {
	model, err := l.model(ctx, l.files[0])
	if err != nil {
		return nil, l.explain(0, err)
	}
	processes := map[string]any{}
	for i := 1; i < len(l.files); i++ {
		layer, err := l.layerModel(ctx, l.files[i])
		if err != nil {
			return nil, l.explain(i, err)
		}
		if err := checkOverlay(l.names[i], model, layer); err != nil {
			return nil, l.explain(i, err)
		}
		if model, err = l.model(ctx, l.files[:i+1]...); err != nil {
			return nil, l.explain(i, err)
		}
		collectProcesses(processes, layer)
	}
	replaceProcesses(model, processes)
	if err := checkExtensions(model); err != nil {
		return nil, l.blame(err)
	}
	project, err := l.project(model)
	if err != nil {
		return nil, l.blame(err)
	}
	system, err := convert(project)
	if err != nil {
		return nil, l.blame(err)
	}
	system.config = l.config
	system.limitEach(l.config.CPUsEach)
	return system, nil
}

// limitEach gives each service a CPU limit that states none.
func (s *System) limitEach(cpus float64) {
	if cpus <= 0 {
		return
	}
	var held []string
	for i := range s.Services {
		if service := &s.Services[i]; !service.Job && service.Limits.CPUs == nil {
			service.Limits.CPUs = &cpus
			held = append(held, service.Name)
		}
	}
	if len(held) == 0 {
		s.Warnings = append(s.Warnings, "--cpus-each changes nothing: every service has a CPU limit of its own")
		return
	}
	s.Warnings = append(s.Warnings, fmt.Sprintf("%s had no CPU limit of its own and got %v CPU (--cpus-each)", strings.Join(held, ", "), cpus))
}

// project checks the model for consistency and types it.
func (l *load) project(model map[string]any) (*types.Project, error) {
	for _, service := range services(model) {
		// Compose wants an image or a build of every service. One that only
		// says what process to start is complete here.
		if (service[processKey] != nil || service[addressesKey] != nil) && service["image"] == nil && service["build"] == nil {
			service["image"] = processOnly
		}
	}
	name, _ := model["name"].(string)
	details := l.details(l.files...)
	options := loader.ToOptions(&details, []func(*loader.Options){l.options, func(o *loader.Options) { o.SetProjectName(name, true) }})
	return guard(func() (*types.Project, error) { return loader.ModelToProject(model, options, details) })
}

// raw is the merged model with its variables as they are written.
func (l *load) raw(ctx context.Context) (map[string]any, error) {
	raw, err := guard(func() (map[string]any, error) {
		return loader.LoadModelWithContext(ctx, l.details(l.files...), l.options, func(o *loader.Options) {
			o.SkipInterpolation, o.SkipValidation, o.SkipNormalization, o.ResolvePaths = true, true, true, false
		})
	})
	if err != nil {
		return nil, l.blame(err)
	}
	return raw, nil
}

// variables are those that a raw model uses.
func variables(raw map[string]any) map[string]template.Variable {
	used := template.ExtractVariables(raw, nil)
	withoutEmptyDefaults(raw, used)
	return used
}

// emptyDefault is ${NAME:-} or ${NAME-}: whoever writes that wants it empty, which
// compose-go does not tell from having no default.
var emptyDefault = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*):?-\}`)

// withoutEmptyDefaults takes the variables with an empty default out of used.
func withoutEmptyDefaults(value any, used map[string]template.Variable) {
	switch value := value.(type) {
	case string:
		for _, match := range emptyDefault.FindAllStringSubmatch(value, -1) {
			delete(used, match[1])
		}
	case map[string]any:
		for _, v := range value {
			withoutEmptyDefaults(v, used)
		}
	case []any:
		for _, v := range value {
			withoutEmptyDefaults(v, used)
		}
	}
}

// services are the services of a model by name.
func services(model map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	named, _ := model["services"].(map[string]any)
	for name, s := range named {
		if service, ok := s.(map[string]any); ok {
			all[name] = service
		}
	}
	return all
}
