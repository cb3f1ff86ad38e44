package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

// documentFile is the name of the document in the run's directory. It is JSON,
// which is YAML too.
const documentFile = "compose.json"

// ours are keys of a service that the driver sees to itself, or that say
// nothing to Docker once the document is whole.
var ours = []string{
	"depends_on", "healthcheck", "restart", "deploy", "scale", "profiles", "container_name", "env_file", "extends",
	"develop", "attach", "annotations", "post_start", "pre_start", "pre_stop", "configs", "secrets", "logging", "ports",
}

// writeDocument writes the Compose document of the run and returns its path.
func (r *Running) writeDocument(ctx context.Context) (string, error) {
	project, err := r.config.System.Project(ctx)
	if err != nil {
		return "", err
	}
	text, err := project.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("write the Compose document: %w", err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return "", fmt.Errorf("write the Compose document: %w", err)
	}
	doc, err := r.document(whole, project)
	if err != nil {
		return "", err
	}
	if text, err = json.MarshalIndent(escape(doc), "", "  "); err != nil {
		return "", fmt.Errorf("write the Compose document: %w", err)
	}
	file := filepath.Join(r.dir, documentFile)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("write the Compose document: %w", err)
	}
	return file, nil
}

// document keeps of the whole document what the run needs, in words that every
// Compose since 1.27 knows.
func (r *Running) document(whole map[string]any, p *types.Project) (map[string]any, error) {
	services := map[string]any{}
	for i := range r.config.System.Services {
		s := &r.config.System.Services[i]
		if s.Replicas == 0 {
			continue // Compose would pull its image
		}
		c := p.Services[s.Name]
		service, ok := object(whole, "services")[s.Name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("service %s is not in its own Compose file", s.Name)
		}
		mounts, err := r.mounts(&c, p)
		if err != nil {
			return nil, err
		}
		r.service(service, s, &c)
		if list, _ := service["volumes"].([]any); len(list)+len(mounts) > 0 {
			service["volumes"] = append(list, mounts...)
		}
		services[s.Name] = service
	}
	volumes := object(whole, "volumes")
	for name := range volumes {
		if v := object(volumes, name); !bool(p.Volumes[name].External) {
			v["name"] = r.config.VolumePrefix + "_" + name
			volumes[name] = v
		}
	}
	networks := object(whole, "networks")
	for name := range networks {
		if n := object(networks, name); !bool(p.Networks[name].External) {
			delete(n, "name") // it would be shared with other runs
			n["labels"] = r.labels(n["labels"])
			networks[name] = n
		}
	}
	doc := map[string]any{"version": "3.8", "services": services, "volumes": volumes, "networks": networks}
	return clean(doc), nil
}

// service makes one service's part of the document in place.
func (r *Running) service(doc map[string]any, s *topology.Service, c *types.ServiceConfig) {
	for _, key := range ours {
		delete(doc, key)
	}
	if s.Image == "" { // Compose would name it after the run
		doc["image"] = r.config.System.Name + "-" + s.Name
	}
	doc["healthcheck"] = map[string]any{"disable": true}
	doc["labels"] = r.labels(doc["labels"])
	half := strconv.FormatInt(r.config.LogBytes/2>>10, 10) + "k"
	doc["logging"] = map[string]any{"driver": "json-file", "options": map[string]any{"max-size": half, "max-file": "2"}}
	delete(doc, "cpus") // see limitCPU
	if s.Job && s.Limits.CPUs != nil {
		doc["cpus"] = *s.Limits.CPUs
	}
	if s.Limits.Memory != nil {
		// The second is memory and swap together: no swap, as a store that swaps
		// would look slow, not full.
		doc["mem_limit"], doc["memswap_limit"] = *s.Limits.Memory, *s.Limits.Memory
	}
	if c.Deploy != nil && c.Deploy.Resources.Limits != nil && c.Deploy.Resources.Limits.Pids != 0 {
		doc["pids_limit"] = c.Deploy.Resources.Limits.Pids
	}
	if ports := published(c.Ports, &r.config.Driver); len(ports) > 0 {
		doc["ports"] = ports
	}
	list, _ := doc["volumes"].([]any)
	for _, v := range list {
		if v, ok := v.(map[string]any); ok {
			delete(object(v, "bind"), "create_host_path")
		}
	}
}

// published are ports in Compose's short form, which every version reads. Those
// without a host ip are for this machine alone, unless d publishes all.
func published(ports []types.ServicePortConfig, d *Driver) []string {
	var list []string
	for _, p := range ports {
		if d.AnyPort {
			p.Published = ""
		}
		text := strconv.FormatUint(uint64(p.Target), 10)
		host := p.HostIP
		if host == "" && !d.PublishAll {
			host = "127.0.0.1"
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if p.Published != "" || host != "" {
			text = p.Published + ":" + text
		}
		if host != "" {
			text = host + ":" + text
		}
		if p.Protocol != "" {
			text += "/" + p.Protocol
		}
		list = append(list, text)
	}
	return list
}

// mounts are the configs and secrets of a service as mounts of single files:
// docker-compose knows no configs, and neither knows those that are texts.
func (r *Running) mounts(c *types.ServiceConfig, p *types.Project) ([]any, error) {
	var all []any
	add := func(kind, name, target string, f types.FileObjectConfig) error {
		if f.External {
			return fmt.Errorf("service %s: %s %s is external, which only a swarm has; give it a `file` or a `content`", c.Name, kind, name)
		}
		file := f.File
		if file == "" {
			text := f.Content
			if f.Environment != "" {
				text = p.Environment[f.Environment]
			}
			file = filepath.Join(r.dir, kind+"-"+filepath.Base(name))
			// The container's user has to read it, whoever that is; the
			// directory keeps others of this machine out.
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return fmt.Errorf("service %s: write %s %s: %w", c.Name, kind, name, err)
			}
		}
		all = append(all, map[string]any{"type": "bind", "source": file, "target": target, "read_only": true})
		return nil
	}
	for _, x := range c.Configs {
		target := x.Target
		if target == "" {
			target = "/" + x.Source
		}
		if err := add("config", x.Source, target, types.FileObjectConfig(p.Configs[x.Source])); err != nil {
			return nil, err
		}
	}
	for _, x := range c.Secrets {
		target := x.Target
		if target == "" {
			target = x.Source
		}
		if !path.IsAbs(target) {
			target = path.Join("/run/secrets", target)
		}
		if err := add("secret", x.Source, target, types.FileObjectConfig(p.Secrets[x.Source])); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// labels are those of the file with the lab's, by which later runs find what
// this one left. Either form of Compose's labels becomes a mapping.
func (r *Running) labels(given any) map[string]any {
	labels := map[string]any{}
	if m, ok := given.(map[string]any); ok {
		maps.Copy(labels, m)
	}
	labels[labLabel] = driver.LabHost(r.config.ProcRoot)
	return labels
}

// object is the mapping at a key, or an empty one.
func object(of map[string]any, key string) map[string]any {
	if m, ok := of[key].(map[string]any); ok {
		return m
	}
	return map[string]any{}
}

// clean removes extension fields and what has no value, but for networks and
// volumes of a service, where null means the defaults.
func clean(doc map[string]any) map[string]any {
	for _, part := range []string{"services", "volumes", "networks"} {
		for _, item := range object(doc, part) {
			if item, ok := item.(map[string]any); ok {
				maps.DeleteFunc(item, func(key string, value any) bool {
					return value == nil || strings.HasPrefix(key, "x-")
				})
			}
		}
	}
	return doc
}

// escape doubles dollar signs in texts: Compose fills in variables again.
func escape(value any) any {
	switch v := value.(type) {
	case string:
		return strings.ReplaceAll(v, "$", "$$")
	case []string:
		list := make([]any, 0, len(v))
		for _, s := range v {
			list = append(list, escape(s))
		}
		return list
	case []any:
		for i := range v {
			v[i] = escape(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = escape(v[key])
		}
	}
	return value
}
