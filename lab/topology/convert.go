package topology

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"golang.org/x/sys/unix"
)

const (
	// processKey is the extension field that says what to start.
	processKey = "x-process"
	// processOnly stands in for the image of a service that needs none.
	processOnly = "x-process-only"
	// optionalKey is the extension field of a service that others can do without.
	optionalKey = "x-optional"
)

// Compose's defaults, and Docker's for what Compose leaves open.
const (
	defaultInterval  = 30 * time.Second
	defaultTimeout   = 30 * time.Second
	defaultRetries   = 3
	defaultStopGrace = 10 * time.Second
)

// convert makes a System of a checked project.
func convert(p *types.Project) (*System, error) {
	s := &System{Name: p.Name, Dir: p.WorkingDir}
	for _, name := range p.ServiceNames() {
		c := p.Services[name]
		service, err := convertService(&c, p)
		if err != nil {
			return nil, err
		}
		s.Services = append(s.Services, service)
		s.Warnings = append(s.Warnings, serviceWarnings(&c, p, len(service.Command) == 0)...)
	}
	for i := range s.Services {
		for _, v := range s.Services[i].Volumes {
			if v.Name != "" && !slices.Contains(s.Volumes, v.Name) {
				s.Volumes = append(s.Volumes, v.Name)
			}
		}
	}
	slices.Sort(s.Volumes)
	if err := s.setNetwork(p); err != nil {
		return nil, err
	}
	if err := s.order(); err != nil {
		return nil, err
	}
	if err := s.checkResources(); err != nil {
		return nil, err
	}
	return s, s.checkVariables()
}

func convertService(c *types.ServiceConfig, p *types.Project) (Service, error) {
	s := Service{
		Name: c.Name, Image: c.Image, Replicas: c.GetScale(), Labels: c.Labels,
		Environment: map[string]string{}, User: c.User, WorkingDir: c.WorkingDir,
		StopGrace: defaultStopGrace,
	}
	if s.Image == processOnly {
		s.Image = ""
	}
	for key, value := range c.Environment {
		if value != nil { // nil: to be passed on, but not set
			s.Environment[key] = *value
		}
	}
	if c.StopGracePeriod != nil {
		s.StopGrace = time.Duration(*c.StopGracePeriod)
	}
	s.DependsOn = dependencies(c, p)
	s.Restart = restart(c)
	s.Port, _ = firstPort(c)
	for _, step := range []func(*types.ServiceConfig, *Service) error{setCommand, setOptional, setAddresses, setAliases, setLink, setResources, setPublished, setLimits, setAutoscale, setHealth, setStopSignal} {
		if err := step(c, &s); err != nil {
			return Service{}, err
		}
	}
	if len(s.Command) > 0 {
		s.Command[0] = absolute(s.Command[0], s.runIn(c, p.WorkingDir))
	}
	var err error
	s.Volumes, err = volumes(c, p, len(s.Command) == 0)
	return s, err
}

// runIn has an x-process run in the directory that its image is built from, unless
// working_dir is one that is here: the paths that it is started with are mostly those
// within the image. It returns the directory that the program's own path is relative to.
func (s *Service) runIn(c *types.ServiceConfig, dir string) string {
	if c.Extensions[processKey] == nil || c.Build == nil || c.Build.Context == "" {
		return dir
	}
	context := c.Build.Context
	if !filepath.IsAbs(context) {
		context = filepath.Join(dir, context)
	}
	work := s.WorkingDir
	if work != "" && !filepath.IsAbs(work) {
		work = filepath.Join(dir, work)
	}
	if context == dir || !isDir(context) || work != "" && isDir(work) {
		return dir
	}
	s.WorkingDir = context
	if _, err := os.Stat(filepath.Join(context, s.Command[0])); err != nil {
		return dir
	}
	return context
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// absolute makes a program with a slash in its name relative to dir; one
// without is for the PATH.
func absolute(program, dir string) string {
	if filepath.IsAbs(program) || !strings.Contains(program, "/") {
		return program
	}
	return filepath.Join(dir, program)
}

// dependencies leaves out optional ones on services that are not enabled.
func dependencies(c *types.ServiceConfig, p *types.Project) []Dependency {
	var all []Dependency
	for name, d := range c.DependsOn {
		if _, enabled := p.Services[name]; enabled {
			all = append(all, Dependency{Service: name, Condition: d.Condition})
		}
	}
	slices.SortFunc(all, func(a, b Dependency) int { return strings.Compare(a.Service, b.Service) })
	return all
}

func setCommand(c *types.ServiceConfig, s *Service) error {
	if value, ok := c.Extensions[processKey]; ok {
		argv, err := processArgv(value)
		if err != nil {
			return fmt.Errorf("service %s: %s: %w", s.Name, processKey, err)
		}
		s.Command = argv
		return nil
	}
	if name, _, _ := strings.Cut(s.Image, ":"); name != Self && !strings.HasPrefix(name, Self+"@") {
		// Another image's own: what that is, its driver knows.
		s.Entrypoint, s.Arguments = slices.Clone(c.Entrypoint), slices.Clone(c.Command)
		return nil
	}
	s.Command = []string{Self} // the image's entrypoint
	if len(c.Entrypoint) > 0 {
		s.Command = slices.Clone(c.Entrypoint)
	}
	s.Command = append(s.Command, c.Command...)
	return nil
}

// restart is what the service says under either of Compose's names for it; the
// one below deploy counts more. Its numbers are for Docker: warnings say so.
func restart(c *types.ServiceConfig) string {
	policy, _, _ := strings.Cut(c.Restart, ":")
	if c.Deploy != nil && c.Deploy.RestartPolicy != nil {
		policy = c.Deploy.RestartPolicy.Condition
		if policy == "" {
			policy = "any" // the Deploy Specification's default
		}
	}
	switch policy {
	case types.RestartPolicyAlways, types.RestartPolicyUnlessStopped, "any":
		return Always
	case types.RestartPolicyOnFailure:
		return OnFailure
	default:
		return Never
	}
}

func setOptional(c *types.ServiceConfig, s *Service) error {
	value, ok := c.Extensions[optionalKey]
	if !ok {
		return nil
	}
	if s.Optional, ok = value.(bool); !ok {
		return fmt.Errorf("service %s: %s is %v; write true or false", s.Name, optionalKey, value)
	}
	return nil
}

// setPublished takes the first port of a range on the host, and leaves out what
// is not TCP; portWarnings says so.
func setPublished(c *types.ServiceConfig, s *Service) error {
	for _, p := range c.Ports {
		if !tcp(p) {
			continue
		}
		published := Published{HostIP: p.HostIP, Port: int(p.Target)}
		if p.Published != "" {
			first, _, _ := strings.Cut(p.Published, "-")
			n, err := strconv.Atoi(first)
			if err != nil || n < 0 || n > 65535 {
				return fmt.Errorf("service %s: ports publishes %d at %q; write a port of the host from 1 to 65535, as in \"8080:%d\"", s.Name, p.Target, p.Published, p.Target)
			}
			published.HostPort = n
		}
		if published.HostIP != "" && net.ParseIP(published.HostIP) == nil {
			return fmt.Errorf("service %s: ports publishes %d at the address %q; write an IP address, as in \"127.0.0.1:8080:%d\"", s.Name, p.Target, p.HostIP, p.Target)
		}
		s.Published = append(s.Published, published)
	}
	return nil
}

func tcp(p types.ServicePortConfig) bool { return p.Protocol == "" || p.Protocol == "tcp" }

func processArgv(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("expected a list with the program and its arguments, such as [./server, --port, \"8080\"]")
	}
	argv := make([]string, 0, len(list))
	for i, item := range list {
		switch v := item.(type) {
		case string:
			argv = append(argv, v)
		case int:
			argv = append(argv, strconv.Itoa(v))
		default:
			return nil, fmt.Errorf("item %d is %v, not text; put it in quotes", i+1, v)
		}
	}
	if argv[0] == "" {
		return nil, fmt.Errorf("the program is empty")
	}
	return argv, nil
}

func setLimits(c *types.ServiceConfig, s *Service) error {
	cpus, memory := c.CPUS, c.MemLimit
	keyCPUs, keyMemory := "cpus", "mem_limit"
	if c.Deploy != nil && c.Deploy.Resources.Limits != nil {
		limits := c.Deploy.Resources.Limits
		if limits.NanoCPUs != 0 {
			cpus, keyCPUs = limits.NanoCPUs.Value(), "deploy.resources.limits.cpus"
		}
		if limits.MemoryBytes != 0 {
			memory, keyMemory = limits.MemoryBytes, "deploy.resources.limits.memory"
		}
	}
	// compose-go keeps CPUs as float32, in which 0.1 is 0.100000001490116; the
	// shortest decimal that gives that float32 is what was written.
	exact, err := strconv.ParseFloat(strconv.FormatFloat(float64(cpus), 'g', -1, 32), 64)
	switch {
	case err != nil || math.IsNaN(exact) || math.IsInf(exact, 0) || exact < 0:
		return fmt.Errorf("service %s: %s is %v; write a number of cores such as \"0.25\"", s.Name, keyCPUs, cpus)
	case exact > 0 && exact < 0.001:
		return fmt.Errorf("service %s: %s is %v; the minimum is 0.001", s.Name, keyCPUs, exact)
	case exact > 0: // Compose's 0 is no limit
		s.Limits.CPUs = &exact
	}
	if memory < 0 {
		return fmt.Errorf("service %s: %s is %d; write a size such as 64M", s.Name, keyMemory, memory)
	}
	if memory > 0 {
		s.Limits.Memory = new(uint64(memory))
	}
	return nil
}

func setHealth(c *types.ServiceConfig, s *Service) error {
	h := c.HealthCheck
	if h == nil || h.Disable || len(h.Test) == 0 || h.Test[0] == "NONE" {
		return nil
	}
	check := &HealthCheck{
		Timeout: duration(h.Timeout, defaultTimeout),
		Within:  duration(h.StartPeriod, 0),
	}
	retries := uint64(defaultRetries)
	if h.Retries != nil && *h.Retries > 0 {
		retries = *h.Retries
	}
	// More than a day of retries is a day, which also keeps the sum in range.
	check.Within += min(time.Duration(min(retries, 86_400))*duration(h.Interval, defaultInterval), 24*time.Hour)
	if h.StartInterval != nil && *h.StartInterval > 0 {
		check.Every = new(time.Duration(*h.StartInterval))
	}
	switch {
	case len(h.Test) < 2 || h.Test[1] == "":
		return fmt.Errorf("service %s: healthcheck.test has no command after %s", s.Name, h.Test[0])
	case h.Test[0] == "CMD":
		check.Command = slices.Clone(h.Test[1:])
	default: // CMD-SHELL: compose-go lets nothing else through
		check.Command = []string{"/bin/sh", "-c", strings.Join(h.Test[1:], " ")}
	}
	s.Health = check
	return nil
}

// duration is d, or byDefault where the file has none. Compose takes 0 as none.
func duration(d *types.Duration, byDefault time.Duration) time.Duration {
	if d == nil || *d <= 0 {
		return byDefault
	}
	return time.Duration(*d)
}

func setStopSignal(c *types.ServiceConfig, s *Service) error {
	name := strings.ToUpper(c.StopSignal)
	if name == "" {
		if len(s.Command) > 0 { // else the image says
			s.StopSignal = syscall.SIGTERM
		}
		return nil
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		s.StopSignal = syscall.Signal(n)
		return nil
	}
	s.StopSignal = unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if s.StopSignal == 0 {
		return fmt.Errorf("service %s: stop_signal %s is not a signal; write for example SIGINT", s.Name, c.StopSignal)
	}
	return nil
}

// firstPort is the first TCP port that a service publishes or exposes, and
// whether others are published that might have been meant: HTTPS beside HTTP is
// the same service.
func firstPort(c *types.ServiceConfig) (port int, more bool) {
	var ports []int
	for _, p := range c.Ports {
		if tcp(p) {
			ports = append(ports, int(p.Target))
		}
	}
	for _, e := range c.Expose {
		number, protocol, _ := strings.Cut(e, "/")
		first, _, _ := strings.Cut(number, "-")
		if n, err := strconv.Atoi(first); err == nil && (protocol == "" || protocol == "tcp") && n > 0 && n < 65536 {
			ports = append(ports, n)
		}
	}
	if len(ports) == 0 {
		return 0, false
	}
	more = slices.ContainsFunc(c.Ports[min(1, len(c.Ports)):], func(p types.ServicePortConfig) bool {
		return p.Target != 443 && p.Target != 8443
	})
	return ports[0], more
}

// order puts the services in dependency order, by name where that leaves it
// open, and marks jobs. compose-go has refused cycles already.
func (s *System) order() error {
	byName := map[string]*Service{}
	for i := range s.Services {
		byName[s.Services[i].Name] = &s.Services[i]
	}
	var ordered []Service
	done := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		for _, d := range byName[name].DependsOn {
			visit(d.Service)
		}
		ordered = append(ordered, *byName[name])
	}
	for i := range s.Services {
		for _, d := range s.Services[i].DependsOn {
			if d.Condition == Healthy && byName[d.Service].Health == nil {
				return fmt.Errorf("service %s waits for %s to be healthy, but %s has no healthcheck", s.Services[i].Name, d.Service, d.Service)
			}
			if d.Condition == Completed {
				byName[d.Service].Job = true
			}
		}
	}
	for i := range s.Services {
		visit(s.Services[i].Name)
	}
	s.Services = ordered
	return nil
}
