package process

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"loadstone/lab/topology"
)

// programs looks for the programs that services say they run.
type programs struct {
	system *topology.System
	path   string // of the lab
	// placed is the system with addresses and directories in it; nil until it is
	// needed.
	placed *topology.System
}

// check says whether the program of a service is there. It is silent where that
// cannot be known before the start: if the file names it by the directory of a
// volume, or if a job that comes before may well be what makes it.
func (p *programs) check(ctx context.Context, s *topology.Service) error {
	program := s.Command[0]
	if program == topology.Self || !s.Optional && strings.Contains(program, "/") && made(s) {
		return nil
	}
	err := missing(program, cmp.Or(s.Environment["PATH"], p.path), p.system.Dir)
	if err == nil {
		return nil
	}
	placed, errPlaced := p.place(ctx)
	if errPlaced != nil {
		return errPlaced
	}
	if now, ok := placed.Service(s.Name); ok && (now.Command[0] != program || now.Environment["PATH"] != s.Environment["PATH"]) {
		return nil
	}
	return fmt.Errorf("service %s: %w", s.Name, err)
}

// missing is why a program cannot be run, and what to do about it. dir is the Compose
// file's: a path outside it was written whole, and is mostly one within an image.
func missing(program, path, dir string) error {
	_, err := find(program, path)
	if err == nil || !strings.Contains(program, "/") {
		return err
	}
	if below, relErr := filepath.Rel(dir, program); relErr == nil && filepath.IsLocal(below) {
		return fmt.Errorf("%w; build it, or correct its path: without Docker nothing is built, and a path that begins with ./ is below the directory of build: or else below the Compose file's", err)
	}
	return fmt.Errorf("%w on this machine, where nothing is built or put into an image without Docker; build it here, and write where it is, such as ./%s below the Compose file's directory, or run with --driver docker", err, filepath.Base(program))
}

// made says whether the service waits for a job to complete.
func made(s *topology.Service) bool {
	return slices.ContainsFunc(s.DependsOn, func(d topology.Dependency) bool { return d.Condition == topology.Completed })
}

// place resolves the system with variables that no file has by itself.
func (p *programs) place(ctx context.Context) (*topology.System, error) {
	if p.placed != nil {
		return p.placed, nil
	}
	hosts, volumes := map[string][]string{}, map[string]string{}
	for i := range p.system.Services {
		hosts[p.system.Services[i].Name] = []string{"host.invalid"}
	}
	for _, name := range p.system.Volumes {
		volumes[name] = "/nonexistent/volume"
	}
	vars := topology.Variables(hosts, volumes)
	vars[topology.BindHost] = "host.invalid"
	var err error
	p.placed, err = p.system.Resolve(ctx, vars)
	return p.placed, err
}
