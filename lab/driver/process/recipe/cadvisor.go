package recipe

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
)

// cadvisorPort is what the image listens on.
const cadvisorPort = 8080

// cadvisorUnknown are the image's flags that the program built from
// deploy/cadvisor does not have, or that would hide what the process driver
// starts: its instances are control groups and no containers.
var cadvisorUnknown = []string{
	"docker_only", "store_container_labels", "disable_metrics", "enable_metrics", "env_metadata_whitelist",
	"url_base_prefix", "prometheus_endpoint", "max_procs", "profiling", "http_auth_file", "http_auth_realm",
	"http_digest_file", "http_digest_realm", "raw_cgroup_prefix_whitelist", "perf_events_config", "resctrl_interval",
	"storage_duration", "storage_driver", "collector_cert", "collector_key", "disable_root_cgroup_stats",
}

// startCadvisor has the image's contract where that means something: its port
// and its metrics. Of what it watches it reports the control groups beside its
// own, which are those of the other instances of this run.
//
// What an instance of the image mounts (/sys, /var/run and so on) is the host's
// own here.
func startCadvisor(_ context.Context, in *Instance) (*Process, error) {
	given, err := in.arguments([]string{"cadvisor", "/usr/bin/cadvisor"})
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(cadvisorPort)
	var args []string
	for i := 0; i < len(given); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(given[i], "-"), "=")
		// Go's flags: what follows is the value, but for booleans.
		next := func() {
			if !hasValue && i+1 < len(given) && !strings.HasPrefix(given[i+1], "-") {
				i++
				value = given[i]
			}
		}
		switch {
		case name == "port":
			next()
			port = value
		case name == "listen_ip":
			next()
		case slices.Contains(cadvisorUnknown, name):
			next()
			if name == "docker_only" || name == "store_container_labels" {
				continue // means nothing without containers
			}
			in.Warnf("service %s: its flag --%s is left out: the program that is installed here does not have it", in.Service.Name, name)
		default:
			args = append(args, given[i])
		}
	}
	host, port, err := net.SplitHostPort(in.listen(net.JoinHostPort("", port), cadvisorPort))
	if err != nil {
		return nil, err
	}
	command := []string{in.Files["cadvisor"], "--beside", "--listen_ip=" + host, "--port=" + port}
	return &Process{Command: append(command, args...)}, nil
}
