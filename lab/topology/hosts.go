package topology

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/goccy/go-yaml"

	"loadstone/block/spelling"
)

// What is here finds the ways in which a service does not reach another one as a
// local process, although the file is right for Docker or nearly so. All of it
// is a warning: a name may be known to the machine, and a variable may be meant.

// spoken are the keys of a service by which it is told where others are.
var spoken = []string{processKey, "entrypoint", "command", "environment", "healthcheck"}

// said is one text of a service that may name another.
type said struct {
	service, key string
	name         string // of the environment variable; empty for the rest
	text         string // as written
}

// findHosts finds who is told no addresses, and warns of services that will not be found,
// or not all of their instances. It takes from used what it has spoken of.
func (l *load) findHosts(s *System, raw map[string]any, used map[string]template.Variable) {
	texts := s.texts(l.withProcesses(raw))
	bare := l.bareNames(s, texts)
	s.Unbound = s.unbound(texts)
	if s.Unaddressed = s.unaddressed(texts); s.Network == Loopback || s.Network == "" && len(s.Unaddressed) == 0 {
		s.Warnings = append(s.Warnings, bare...)
	} else {
		s.BareNames = bare
	}
	s.Warnings = slices.Concat(s.Warnings, l.unknownHosts(raw, texts, used), l.firstOnly(s, texts, raw))
}

// unaddressed are the services of programs with a port of which no text has a variable of
// an address. This program's own listen where they are told.
func (s *System) unaddressed(texts []said) []string {
	var all []string
	names := s.driverVariables()
	for i := range s.Services {
		service := &s.Services[i]
		if len(service.Command) == 0 || service.Command[0] == Self || service.Job || service.Port == 0 || service.Replicas == 0 {
			continue
		}
		addressed := slices.ContainsFunc(texts, func(t said) bool {
			return t.service == service.Name && slices.ContainsFunc(hostVariables.FindAllStringSubmatch(t.text, -1), func(m []string) bool { return names[m[1]] })
		})
		if !addressed {
			all = append(all, service.Name)
		}
	}
	slices.Sort(all)
	return all
}

// unbound are the programs that are not told where to listen.
func (s *System) unbound(texts []said) []string {
	var all []string
	for i := range s.Services {
		service := &s.Services[i]
		bound := func(t said) bool { return t.service == service.Name && strings.Contains(t.text, BindHost) }
		if len(service.Command) > 0 && service.Command[0] != Self && !slices.ContainsFunc(texts, bound) {
			all = append(all, service.Name)
		}
	}
	slices.Sort(all)
	return all
}

// hostVariables finds the variables in a text that may be those of an address.
var hostVariables = regexp.MustCompile(`\$\{?(\w+_HOSTS?)\b`)

// withProcesses are the services of the raw model, each with the x-process of the
// last file that has one.
func (l *load) withProcesses(raw map[string]any) map[string]map[string]any {
	processes := map[string]any{}
	for _, file := range l.files[1:] {
		var layer map[string]any
		if err := yaml.Unmarshal(file.Content, &layer); err == nil { // else it would not have been loaded
			collectProcesses(processes, layer)
		}
	}
	replaceProcesses(raw, processes)
	return services(raw)
}

// texts are what the services that run are told.
func (s *System) texts(raw map[string]map[string]any) []said {
	var all []said
	for i := range s.Services {
		name := s.Services[i].Name
		for _, key := range spoken {
			eachText(raw[name][key], "", func(variable, text string) {
				all = append(all, said{service: name, key: key, name: variable, text: text})
			})
		}
	}
	return all
}

// eachText calls f for every text in a value, with the key that it has if it is
// in a mapping, which environment is or, as A=b, is not.
func eachText(value any, key string, f func(key, text string)) {
	switch value := value.(type) {
	case string:
		if before, after, ok := strings.Cut(value, "="); ok && key == "" {
			key, value = before, after
		}
		f(key, value)
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(value)) {
			eachText(value[k], k, f)
		}
	case []any:
		for _, item := range value {
			eachText(item, key, f)
		}
	}
}

// warnAt is a warning with the place of a fragment of what was said.
func (l *load) warnAt(t said, fragment, format string, args ...any) string {
	text := fmt.Sprintf("service %s: ", t.service) + fmt.Sprintf(format, args...)
	want := wanted{path: []string{"services", t.service, t.key}, needle: fragment}
	return l.mistake(errors.New(text), text, want).Error()
}

// hostKeys are endings of variables that hold an address and nothing else.
var hostKeys = regexp.MustCompile(`(?i)(host|hosts|hostname|addr|address|server|servers|endpoint)$`)

// bareNames warns of services that are named as Docker knows them. Those that run
// what is in their image are left out: their recipes may know better.
func (l *load) bareNames(s *System, texts []said) []string {
	driver := s.driverVariables()
	var all []string
	for _, t := range texts {
		if by, _ := s.Service(t.service); len(by.Command) == 0 {
			continue
		}
		text, err := template.SubstituteWithOptions(t.text, func(name string) (string, bool) {
			if driver[name] {
				return "\x00", true
			}
			value, ok := l.env[name]
			return value, ok
		}, template.WithoutLogging)
		if err != nil {
			continue // it would not have been loaded
		}
		for i := range s.Services {
			other := &s.Services[i]
			name := bareName(text, other.Name)
			if name == "" && text == other.Name && t.key == "environment" && hostKeys.MatchString(t.name) {
				name = other.Name
			}
			if name == "" || other.Replicas == 0 {
				continue
			}
			instead := "${" + variable(other.Name) + "_HOST:-" + other.Name + "}" + strings.TrimPrefix(name, other.Name)
			all = append(all, l.warnAt(t, name, "%s is a host name that only Docker resolves; write %s", name, instead))
		}
	}
	return all
}

// bareName is the name of a service with its port, or after a scheme alone, as it
// is used in a text for a host; empty if it is not. One that is followed by @ is
// a user.
func bareName(text, service string) string {
	quoted := regexp.QuoteMeta(service)
	if m := regexp.MustCompile(`(?:^|[/@=,;|\s"'(\[])(` + quoted + `:[0-9]{2,5})(?:[^0-9@]|$)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	if m := regexp.MustCompile(`://(?:[^/@\s]*@)?(` + quoted + `)(?:[/?,\s"']|$)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// unknownHosts warns of variables that look like the address of a service and are
// not set by any driver. Services that are not enabled count: their variables
// are right.
func (l *load) unknownHosts(raw map[string]any, texts []said, used map[string]template.Variable) []string {
	byVariable := map[string]string{}
	for name := range services(raw) {
		byVariable[variable(name)] = name
	}
	known := slices.Sorted(maps.Keys(byVariable))
	var all []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		base, plural := strings.CutSuffix(name, "_HOSTS")
		if !plural {
			base = strings.TrimSuffix(name, "_HOST")
		}
		_, set := l.env[name]
		if base == name || byVariable[base] != "" || set || name == BindHost {
			continue
		}
		meant := variable(used[name].DefaultValue)
		if byVariable[meant] == "" {
			meant, _ = spelling.Nearest(base, known)
		}
		at := slices.IndexFunc(texts, func(t said) bool { return strings.Contains(t.text, name) })
		if byVariable[meant] == "" || at < 0 {
			continue
		}
		holds := "empty"
		if v := used[name].DefaultValue; v != "" {
			holds = v
		}
		delete(used, name)
		all = append(all, l.warnAt(texts[at], name, "the variable %s is not set, so its value is %s; did you mean ${%s%s:-%s}?",
			name, holds, meant, strings.TrimPrefix(name, base), byVariable[meant]))
	}
	return all
}

// firstOnly warns of services of several instances of which the file only ever
// names the first.
func (l *load) firstOnly(s *System, texts []said, raw map[string]any) []string {
	everything := fmt.Sprint(raw)
	var all []string
	for i := range s.Services {
		several := &s.Services[i]
		name := variable(several.Name) + "_HOST"
		if several.Replicas < 2 || several.Job || strings.Contains(everything, name+"S") {
			continue
		}
		form := regexp.MustCompile(`\$\{?` + name + `\b`)
		at := slices.IndexFunc(texts, func(t said) bool { return t.service != several.Name && form.MatchString(t.text) })
		if at < 0 {
			continue
		}
		all = append(all, l.warnAt(texts[at], name, "${%s} is only the first of several instances of %s: the others receive no requests from here; ${%sS:-%s} has all addresses, separated by commas",
			name, several.Name, name, several.Name))
	}
	return all
}
