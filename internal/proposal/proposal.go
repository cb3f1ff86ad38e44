// Package proposal proposes the first experiment for a system that somebody has a Compose
// file of: which service takes the load, what each may use of the CPU, and how what is
// built into an image starts as a local process. It only reads; what it proposes is text
// for people to check and change.
package proposal

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"loadstone/lab/topology"
)

// Config is what to propose for.
type Config struct {
	// ComposeFile is the path of the Compose file, and System what it describes.
	ComposeFile string
	System      *topology.System
	// Without are the services that cannot start without Docker as they are.
	Without []string
	// Entry is the service that takes the load, if it is known, and Request what is asked
	// of it first, such as GET /.
	Entry, Request string
	Cores          int // of the machine
	// OwnNetworks says whether instances can have networks of their own here, in which
	// services are found by name. It is asked only where that matters.
	OwnNetworks func() bool
}

// Proposal is a first experiment.
type Proposal struct {
	Name    string
	Entry   string
	Why     string // that service
	Request string
	CPUs    float64 // for each service in Limited
	Limited []string
	// Starts are the commands that start services without Docker, from their Dockerfiles, by
	// service; Unknown are the services of which no command was found.
	Starts  map[string][]string
	Unknown []string
	// Environment are variables that name other services, with their addresses, by service.
	Environment map[string]map[string]string
	// Untold are dependencies of which no variable tells where they are, by service: their
	// names may be in the program.
	Untold map[string][]string
	// OwnNetwork says that each instance is to have a network of its own, so that these are
	// found. Environment is empty then, as all names are.
	OwnNetwork bool

	file string
}

// New proposes an experiment. The error says why none can be.
func New(c Config) (*Proposal, error) {
	p := &Proposal{
		Name: experimentName(c.System.Name), Request: cmp.Or(c.Request, "GET /"), file: filepath.Base(c.ComposeFile),
		Starts: map[string][]string{}, Environment: map[string]map[string]string{}, Untold: map[string][]string{},
	}
	if err := p.chooseEntry(c); err != nil {
		return nil, err
	}
	p.limit(c)
	raw, err := readRaw(c.ComposeFile)
	if err != nil {
		return nil, err
	}
	for _, name := range c.Without {
		if argv := raw[name].start(filepath.Dir(c.ComposeFile)); argv != nil {
			p.Starts[name] = argv
		} else {
			p.Unknown = append(p.Unknown, name)
		}
	}
	p.address(c, raw)
	return p, nil
}

// address says how services find each other: by variables or, where a service depends on
// another of which none tells, by names, in networks of their own. One way for all: with
// variables for some, the names in the others' programs would be found nowhere.
func (p *Proposal) address(c Config, raw map[string]service) {
	for i := range c.System.Services {
		s := &c.System.Services[i]
		if p.Starts[s.Name] == nil && len(s.Command) == 0 {
			continue // of a known image, whose recipe finds the others
		}
		vars := addresses(raw[s.Name].environment(), c.System)
		if len(vars) > 0 {
			p.Environment[s.Name] = vars
		}
		for _, d := range s.DependsOn {
			if d.Condition != topology.Completed && !tells(vars, d.Service) && !tells(raw[s.Name].environment(), d.Service) {
				p.Untold[s.Name] = append(p.Untold[s.Name], d.Service)
			}
		}
	}
	if len(p.Untold) > 0 && c.System.Network == "" && c.OwnNetworks != nil && c.OwnNetworks() {
		p.OwnNetwork, p.Environment = true, nil
	}
}

// tells says whether a variable has the address of a service.
func tells(vars map[string]string, service string) bool {
	for _, value := range vars {
		if strings.Contains(value, "${"+topology.HostVariable(service)) {
			return true
		}
	}
	return false
}

// experimentName is a name that an experiment may have.
func experimentName(text string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(text, "-")
	const most = 50
	return cmp.Or(strings.Trim(name[:min(len(name), most)], "-._"), "system")
}

// frontNames are what services are called that take the load for others.
var frontNames = regexp.MustCompile(`(?i)^(web|www|lb|proxy|gateway|nginx|front|edge|ingress|router|traefik|haproxy|caddy)`)

// chooseEntry takes the service that publishes a port and that no other waits for; of
// several, one that is called as a front is.
func (p *Proposal) chooseEntry(c Config) error {
	var published, names []string
	needed := map[string]bool{}
	for i := range c.System.Services {
		s := &c.System.Services[i]
		names = append(names, s.Name)
		for _, d := range s.DependsOn {
			needed[d.Service] = true
		}
		if s.Port != 0 && !s.Job {
			published = append(published, s.Name)
		}
	}
	if c.Entry != "" {
		if !slices.Contains(names, c.Entry) {
			return fmt.Errorf("there is no service %s; the services are %s", c.Entry, strings.Join(names, ", "))
		}
		p.Entry, p.Why = c.Entry, "as you said"
		return nil
	}
	free := slices.DeleteFunc(slices.Clone(published), func(name string) bool { return needed[name] })
	front := slices.IndexFunc(published, frontNames.MatchString)
	switch {
	case len(published) == 0:
		return fmt.Errorf("no service of %s publishes a port, so nothing can be loaded; write ports: [\"8080\"] at the one that takes requests", c.ComposeFile)
	case len(published) == 1:
		p.Entry, p.Why = published[0], "the only one that publishes a port"
	case len(free) == 1:
		p.Entry, p.Why = free[0], "the only one with a port that no other depends on"
	case front >= 0:
		p.Entry, p.Why = published[front], "by its name; "+strings.Join(published, ", ")+" publish ports"
	default:
		p.Entry, p.Why = published[0], "a guess; "+strings.Join(published, ", ")+" publish ports"
	}
	return nil
}

// limit gives a CPU limit to what has none: as much as leaves half the machine to the load
// generator.
func (p *Proposal) limit(c Config) {
	instances, taken := 0, 0.0
	for i := range c.System.Services {
		s := &c.System.Services[i]
		switch {
		case s.Job:
		case s.Limits.CPUs != nil:
			taken += *s.Limits.CPUs * float64(s.Replicas)
		default:
			p.Limited = append(p.Limited, s.Name)
			instances += s.Replicas
		}
	}
	p.CPUs = 0.05
	for _, cpus := range []float64{1, 0.5, 0.25, 0.1} {
		if taken+cpus*float64(instances) <= float64(c.Cores)/2 {
			p.CPUs = cpus
			break
		}
	}
}

// service is a service as its file has it, with its variables as they are written.
type service map[string]any

func readRaw(path string) (map[string]service, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return file.Services, nil
}

// environment is a map or a list of NAME=VALUE in the file.
func (s service) environment() map[string]string {
	out := map[string]string{}
	switch vars := s["environment"].(type) {
	case map[string]any:
		for name, value := range vars {
			out[name] = fmt.Sprint(value)
		}
	case []any:
		for _, one := range vars {
			if name, value, ok := strings.Cut(fmt.Sprint(one), "="); ok {
				out[name] = value
			}
		}
	}
	return out
}

// addresses are the variables that have another service's name where a host stands, with
// the address that it has here: ${DB_HOST:-db} is db with Docker.
func addresses(vars map[string]string, system *topology.System) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		for i := range system.Services {
			host := system.Services[i].Name
			at := regexp.MustCompile(`(^|//|@|,)` + regexp.QuoteMeta(host) + `(:[0-9]+|/|,|$)`)
			value = at.ReplaceAllString(value, "${1}$${"+topology.HostVariable(host)+":-"+host+"}${2}")
		}
		if value != vars[name] {
			out[name] = value
		}
	}
	return out
}
