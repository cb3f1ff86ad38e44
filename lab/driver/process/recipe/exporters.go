package recipe

import (
	"context"
	"slices"
	"strings"
)

// exporter is how the distribution's build of an exporter differs from the
// image's. Its environment (SCRAPE_URI, REDIS_ADDR, DATA_SOURCE_NAME and so on)
// is the same, so it is just passed on.
type exporter struct {
	names   []string // of the image's program
	env     string   // the variable for the address to listen on; empty for none
	unknown []string // flags of newer versions, dropped with a warning
	own     []string // flags that the recipe adds, unless the service has them
}

var nginxExporter = exporter{
	names: []string{"nginx-prometheus-exporter", "/usr/bin/nginx-prometheus-exporter"}, env: "LISTEN_ADDRESS",
	unknown: []string{"log.level", "log.format", "web.config.file", "web.systemd-socket"},
	// The image's waits for NGINX as long as it takes; the distribution's, an
	// older one, ends unless it is told to try again. 120 x 0.5 s is a minute.
	own: []string{"-nginx.retries=120", "-nginx.retry-interval=500ms"},
}

var redisExporter = exporter{
	names: []string{"redis_exporter", "/redis_exporter"}, env: "REDIS_EXPORTER_WEB_LISTEN_ADDRESS",
	unknown: []string{"log-level"},
}

var postgresExporter = exporter{
	names: []string{"postgres_exporter", "/bin/postgres_exporter"}, env: "PG_EXPORTER_WEB_LISTEN_ADDRESS",
	unknown: []string{
		"collector.stat_statements", "collector.stat_user_tables", "collector.statio_user_tables", "collector.locks",
		"collector.replication", "collector.replication_slot", "collector.wal", "collector.long_running_transactions",
		"collector.database_wraparound", "collector.postmaster", "collector.process_idle", "collector.stat_database",
		"collector.stat_bgwriter", "collector.stat_activity_autovacuum", "collector.stat_wal_receiver", "collector.xlog_location",
		"collection-timeout", "config.file",
	},
}

// nodeExporter: pathFlags translates --path.rootfs=/host and its like to what is
// mounted there, usually the host's own directories.
var nodeExporter = exporter{
	names: []string{"node_exporter", "/bin/node_exporter"},
	// The distribution turns this on; without a system bus it logs an error
	// for each scrape, and the image has it off.
	own: []string{"--no-collector.systemd"},
}

func (e exporter) start(_ context.Context, in *Instance) (*Process, error) {
	const listen = "web.listen-address"
	given, err := in.arguments(e.names)
	if err != nil {
		return nil, err
	}
	address := in.Service.Environment[e.env]
	args := takeFlags(given, func(name string, value func() string) bool {
		switch {
		case name == listen:
			address = value()
		case e.drops(name):
			value()
			in.Warnf("its flag --%s is left out: the version that is installed here does not have it", name)
		default:
			return false
		}
		return true
	})
	args = in.pathFlags(args)
	for _, flag := range e.own {
		if name, _, _ := strings.Cut(flag, "="); !hasFlag(args, name) {
			args = append(args, flag)
		}
	}
	process := &Process{Command: append([]string{in.Files[in.program]}, args...)}
	process.Command = append(process.Command, "--"+listen+"="+in.listen(address))
	if e.env != "" {
		process.Env = map[string]string{e.env: in.listen(address)}
	}
	return process, nil
}

// drops says whether the flag, or its --no- form, is one of a newer version.
func (e exporter) drops(name string) bool {
	return slices.Contains(e.unknown, name) || slices.Contains(e.unknown, strings.TrimPrefix(name, "no-"))
}

// hasFlag says whether the arguments have a flag, or its opposite.
func hasFlag(args []string, flag string) bool {
	want := strings.TrimPrefix(strings.TrimLeft(flag, "-"), "no-")
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.TrimPrefix(name, "no-") == want
	})
}
