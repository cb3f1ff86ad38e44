package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/driver"
)

// Prepare is for Core.
func (r *Running) Prepare(ctx context.Context) error {
	err := checkImages(r.config.System)
	if err != nil {
		return err
	}
	if r.name, err = driver.RunName(r.config.ProcRoot); err != nil {
		return err
	}
	if r.docker, err = newClient(r.config.Env, r.name); err != nil {
		return err
	}
	if r.engine, err = r.docker.engine(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.config.LogDir, 0o755); err != nil {
		return fmt.Errorf("prepare to start: %w", err)
	}
	if err := r.startGuardian(ctx); err != nil {
		return err
	}
	r.sweep(ctx)
	if err := r.makeDir(); err != nil {
		return err
	}
	if err := r.create(ctx); err != nil {
		return err
	}
	if err := r.plan(ctx); err != nil {
		return err
	}
	return r.watch(ctx)
}

func (r *Running) makeDir() error {
	base := r.config.Env["TMPDIR"]
	if base == "" {
		base = "/tmp"
	}
	var err error
	if r.dir, err = os.MkdirTemp(base, r.name+"-"); err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	return r.guard.Dir(r.dir)
}

// create has Compose make all containers, and what they need, and starts none.
func (r *Running) create(ctx context.Context) error {
	file, err := r.writeDocument(ctx)
	if err != nil {
		return err
	}
	argv := slices.Concat(r.docker.compose, []string{"--file", file, "--project-name", r.name, "up", "--no-start"})
	for i := range r.config.System.Services {
		if s := &r.config.System.Services[i]; s.Replicas > 0 {
			argv = append(argv, "--scale", s.Name+"="+strconv.Itoa(s.Replicas))
		}
	}
	var said bytes.Buffer
	if err := r.docker.run(ctx, call{argv: argv, within: createWithin, out: &said}); err != nil {
		return fmt.Errorf("make the containers: %w", err)
	}
	return nil
}

// plan finds the containers that were made, by Compose's labels.
func (r *Running) plan(ctx context.Context) error {
	const format = `{{.ID}} {{.Label "com.docker.compose.service"}} {{.Label "com.docker.compose.container-number"}}`
	out, err := r.docker.quick(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+projectLabel+"="+r.name, "--format", format)
	if err != nil {
		return fmt.Errorf("find the containers: %w", err)
	}
	ids := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 {
			ids[f[1]+"-"+f[2]] = f[0]
		}
	}
	for _, service := range r.config.System.Services {
		var instances []*driver.Instance
		for i := range service.Replicas {
			in := &instance{run: r}
			in.Instance = driver.Instance{
				Service: service, Index: i + 1, Name: fmt.Sprintf("%s-%d", service.Name, i+1), Actions: in, LimitCPU: in.limitCPU, OnReady: in.keepLog,
			}
			if in.id = ids[in.Name]; in.id == "" {
				return fmt.Errorf("find the containers: Compose has made none for %s", in.Name)
			}
			instances = append(instances, &in.Instance)
			r.instances = append(r.instances, in)
		}
		r.Add(service, instances...)
	}
	if len(ids) != len(r.instances) {
		return fmt.Errorf("find the containers: Compose has made %d, and the file says %d", len(ids), len(r.instances))
	}
	return nil
}
