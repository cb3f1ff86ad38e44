package recipe

import (
	"context"
	"slices"
	"strconv"
)

// cadvisorMeaningless are the image's flags that mean nothing without containers.
var cadvisorMeaningless = []string{"docker_only", "store_container_labels"}

// cadvisorUnknown are the image's flags that the program built from
// deploy/cadvisor does not have, or that would hide what the process driver
// starts: its instances are control groups and no containers.
var cadvisorUnknown = []string{
	"disable_metrics", "enable_metrics", "env_metadata_whitelist",
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
	port := strconv.Itoa(in.port)
	args := takeFlags(given, func(name string, value func() string) bool {
		switch {
		case name == "port":
			port = value()
		case name == "listen_ip", slices.Contains(cadvisorMeaningless, name):
			value()
		case slices.Contains(cadvisorUnknown, name):
			value()
			in.Warnf("its flag --%s is left out: the program that is installed here does not have it", name)
		default:
			return false
		}
		return true
	})
	command := []string{in.Files["cadvisor"], "--beside", "--listen_ip=" + in.Host, "--port=" + port}
	return &Process{Command: append(command, args...)}, nil
}
