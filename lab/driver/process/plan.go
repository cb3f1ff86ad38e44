package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

// plan gives every instance its name and address, makes the volumes and sets
// the variables that the file is resolved with.
func (r *Running) plan() error {
	hosts := map[string][]string{}
	for _, service := range r.config.System.Services {
		r.asImage(&service)
		var instances []*driver.Instance
		for i := range service.Replicas {
			in := &instance{run: r, service: service.Name, host: r.address(len(r.instances))}
			in.Instance = driver.Instance{Service: service, Index: i + 1, Name: fmt.Sprintf("%s-%d", service.Name, i+1), Actions: in, LimitCPU: in.limitCPU}
			instances = append(instances, &in.Instance)
			r.instances = append(r.instances, in)
			hosts[service.Name] = append(hosts[service.Name], in.host)
		}
		r.Add(service, instances...)
	}
	volumes, err := r.makeVolumes()
	if err != nil {
		return err
	}
	r.hosts, r.volumes = hosts, volumes
	r.vars = topology.Variables(hosts, volumes)
	if r.network != nil {
		return r.network.ServeNames(r.lookup)
	}
	return nil
}

// makeVolumes makes the directories of the named volumes. A new one belongs to
// the user of the first service that mounts it, as in Docker.
func (r *Running) makeVolumes() (map[string]string, error) {
	volumes := map[string]string{}
	for _, name := range r.config.System.Volumes {
		dir := filepath.Join(r.config.VolumeDir, strings.ReplaceAll(name, "/", "_"))
		volumes[name] = dir
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make volume %s: %w", name, err)
		}
		account := r.account(r.mountedBy(name))
		if account == nil {
			continue
		}
		if err := os.Chown(dir, int(account.credential.Uid), int(account.credential.Gid)); err != nil {
			return nil, fmt.Errorf("make volume %s: %w", name, err)
		}
	}
	return volumes, nil
}

// mountedBy is the first service with a user of its own that mounts a volume.
func (r *Running) mountedBy(volume string) *topology.Service {
	services := r.config.System.Services
	for i := range services {
		for _, v := range services[i].Volumes {
			if v.Name == volume && services[i].User != "" {
				return &services[i]
			}
		}
	}
	return nil
}
