package recipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

const (
	prometheusConfig = "/etc/prometheus/prometheus.yml"
	prometheusData   = "/prometheus"
)

// prometheusText is what runs where no configuration is mounted: as in the
// image, Prometheus watches itself.
const prometheusText = `global: {scrape_interval: 15s}
scrape_configs:
  - job_name: prometheus
    static_configs: [{targets: ["localhost:9090"]}]
`

// startPrometheus has the official image's contract: the configuration at
// /etc/prometheus/prometheus.yml, data in /prometheus, and a command of flags.
//
// Prometheus expands no variables, so the configuration is rendered: a target
// that names a service becomes all of its instances (api:8080 with three
// replicas becomes three targets), as does a DNS look-up of a service's name,
// and files named in it become those that are mounted.
func startPrometheus(_ context.Context, in *Instance) (*Process, error) {
	given, err := in.arguments([]string{"prometheus", "/bin/prometheus"}, "--config.file="+prometheusConfig, "--storage.tsdb.path="+prometheusData)
	if err != nil {
		return nil, err
	}
	config, data, address := prometheusConfig, prometheusData+"/data", ""
	ours := map[string]*string{"config.file": &config, "storage.tsdb.path": &data, "web.listen-address": &address}
	args := takeFlags(given, func(name string, value func() string) bool {
		to, ok := ours[name]
		if ok {
			*to = value()
		}
		return ok
	})
	if !path.IsAbs(data) {
		data = path.Join(prometheusData, data) // the image's working directory
	}
	dir, err := in.dataDir(data)
	if err != nil {
		return nil, err
	}
	file, err := in.renderPrometheus(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config, err)
	}
	command := []string{
		in.Files["prometheus"], "--config.file=" + file, "--storage.tsdb.path=" + dir,
		"--web.listen-address=" + in.listen(address),
	}
	return &Process{Command: append(command, in.pathFlags(args)...)}, nil
}

// renderPrometheus writes the configuration for this instance.
func (in *Instance) renderPrometheus(inside string) (string, error) {
	text := []byte(prometheusText)
	host, mounted := in.mounted(inside)
	if mounted {
		var err error
		if text, err = os.ReadFile(host); err != nil {
			return "", err
		}
	} else if inside != prometheusConfig {
		return "", errors.New("it is not mounted")
	}
	var config yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &config, yaml.UseOrderedMap()); err != nil {
		return "", errors.New("it is not valid YAML: " + yaml.FormatError(err, false, false))
	}
	rendered, err := yaml.Marshal(in.prometheusValue("", config, path.Dir(inside)))
	if err != nil {
		return "", err
	}
	file := filepath.Join(in.Dir, "prometheus.yml")
	return file, in.write(file, rendered, 0o600)
}

// prometheusValue renders a value that stands under key in a configuration
// that lies in the directory dir inside the container.
func (in *Instance) prometheusValue(key string, value any, dir string) any {
	switch v := value.(type) {
	case yaml.MapSlice:
		return in.prometheusMap(v, dir)
	case []any:
		if key == "targets" {
			return in.targets(v)
		}
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, in.prometheusValue(key, item, dir))
		}
		return out
	case string:
		if isFile(key) && v != "" {
			return in.configFile(v, dir)
		}
	}
	return value
}

// isFile says whether Prometheus takes what stands under key for a file.
func isFile(key string) bool {
	return key == "rule_files" || key == "files" || key == "scrape_config_files" || strings.HasSuffix(key, "_file")
}

// configFile is the file, or the pattern, that a configuration in dir names.
func (in *Instance) configFile(name, dir string) string {
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	if host, ok := in.mounted(path.Dir(name)); ok {
		return filepath.Join(host, path.Base(name)) // the last part may be a pattern
	}
	return in.path(name)
}

func (in *Instance) prometheusMap(m yaml.MapSlice, dir string) yaml.MapSlice {
	out := make(yaml.MapSlice, 0, len(m))
	var found []any // targets of DNS look-ups
	for _, item := range m {
		key, _ := item.Key.(string)
		if key == "dns_sd_configs" {
			rest, targets := in.lookUps(item.Value)
			found = append(found, targets...)
			if len(rest) == 0 {
				continue
			}
			item.Value = rest
		}
		out = append(out, yaml.MapItem{Key: item.Key, Value: in.prometheusValue(key, item.Value, dir)})
	}
	if len(found) == 0 {
		return out
	}
	group := yaml.MapSlice{{Key: "targets", Value: found}}
	i := slices.IndexFunc(out, func(item yaml.MapItem) bool { return item.Key == "static_configs" })
	if i < 0 {
		return append(out, yaml.MapItem{Key: "static_configs", Value: []any{group}})
	}
	if groups, ok := out[i].Value.([]any); ok {
		out[i].Value = slices.Concat(groups, []any{group})
	}
	return out
}

// lookUps are the entries of dns_sd_configs that ask for other names than
// services', and the targets of those that ask for services.
func (in *Instance) lookUps(value any) (rest, targets []any) {
	entries, _ := value.([]any)
	for _, entry := range entries {
		fields := map[string]any{}
		m, _ := entry.(yaml.MapSlice)
		for _, item := range m {
			if key, ok := item.Key.(string); ok {
				fields[key] = item.Value
			}
		}
		names, _ := fields["names"].([]any)
		ours := len(names) > 0 && fields["port"] != nil
		var these []any
		for _, name := range names {
			service := strings.TrimPrefix(fmt.Sprint(name), "tasks.")
			ours = ours && len(in.Hosts[service]) > 0
			for _, host := range in.Hosts[service] {
				these = append(these, net.JoinHostPort(host, fmt.Sprint(fields["port"])))
			}
		}
		if ours {
			targets = append(targets, these...)
		} else {
			rest = append(rest, entry)
		}
	}
	return rest, targets
}

// targets puts the addresses of services in the place of their names.
func (in *Instance) targets(list []any) []any {
	var out []any
	for _, item := range list {
		text, ok := item.(string)
		host, port, err := net.SplitHostPort(text)
		if !ok || err != nil {
			out = append(out, item)
			continue
		}
		addresses, known := in.addresses(host)
		if !known {
			out = append(out, item)
		}
		for _, a := range addresses {
			out = append(out, net.JoinHostPort(a, port))
		}
	}
	return out
}
