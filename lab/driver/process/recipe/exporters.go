package recipe

import (
	"context"
	"slices"
	"strings"
)

// exporter is how the distribution's build of an exporter differs from the
// image's: what it is called is in the table, what it does not know is here.
type exporter struct {
	names   []string // of the image's program
	listen  string   // the flag for the address to listen on
	env     string   // the variable for the same; empty for none
	port    int
	unknown []string // flags of newer versions, dropped with a warning
	own     []string // flags that the recipe adds, unless the service has them
}

// The exporters' environment (SCRAPE_URI, REDIS_ADDR, DATA_SOURCE_NAME and so
// on) is the same in the distribution's builds, so it is just passed on.

func startNginxExporter(_ context.Context, in *Instance) (*Process, error) {
	return exporter{
		names: []string{"nginx-prometheus-exporter", "/usr/bin/nginx-prometheus-exporter"}, listen: "web.listen-address", env: "LISTEN_ADDRESS", port: 9113,
		unknown: []string{"log.level", "log.format", "web.config.file", "web.systemd-socket"},
		// The image's waits for NGINX as long as it takes; the distribution's, an
		// older one, ends unless it is told to try again. 120 x 0.5 s is a minute.
		own: []string{"-nginx.retries=120", "-nginx.retry-interval=500ms"},
	}.start(in)
}

func startRedisExporter(_ context.Context, in *Instance) (*Process, error) {
	return exporter{
		names: []string{"redis_exporter", "/redis_exporter"}, listen: "web.listen-address", env: "REDIS_EXPORTER_WEB_LISTEN_ADDRESS", port: 9121,
		unknown: []string{"log-level"},
	}.start(in)
}

func startPostgresExporter(_ context.Context, in *Instance) (*Process, error) {
	return exporter{
		names: []string{"postgres_exporter", "/bin/postgres_exporter"}, listen: "web.listen-address", env: "PG_EXPORTER_WEB_LISTEN_ADDRESS", port: 9187,
		unknown: []string{
			"collector.stat_statements", "collector.stat_user_tables", "collector.statio_user_tables", "collector.locks",
			"collector.replication", "collector.replication_slot", "collector.wal", "collector.long_running_transactions",
			"collector.database_wraparound", "collector.postmaster", "collector.process_idle", "collector.stat_database",
			"collector.stat_bgwriter", "collector.stat_activity_autovacuum", "collector.stat_wal_receiver", "collector.xlog_location",
			"collection-timeout", "config.file",
		},
	}.start(in)
}

// startNodeExporter translates --path.rootfs=/host and its like to what is
// mounted there, usually the host's own directories.
func startNodeExporter(_ context.Context, in *Instance) (*Process, error) {
	return exporter{
		names: []string{"node_exporter", "/bin/node_exporter"}, listen: "web.listen-address", port: 9100,
		// The distribution turns this on; without a system bus it logs an error
		// for each scrape, and the image has it off.
		own: []string{"--no-collector.systemd"},
	}.start(in)
}

func (e exporter) start(in *Instance) (*Process, error) {
	given, err := in.arguments(e.names)
	if err != nil {
		return nil, err
	}
	address := in.Service.Environment[e.env]
	var args []string
	for i := 0; i < len(given); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(given[i], "-"), "=")
		switch {
		case name == e.listen:
			if !hasValue && i+1 < len(given) {
				i++
				value = given[i]
			}
			address = value
		case e.drops(name):
			in.Warnf("service %s: its flag --%s is left out: the version that is installed here does not have it", in.Service.Name, name)
			if !hasValue && i+1 < len(given) && !strings.HasPrefix(given[i+1], "-") {
				i++
			}
		default:
			args = append(args, given[i])
		}
	}
	args = in.pathFlags(args)
	for _, flag := range e.own {
		if name, _, _ := strings.Cut(flag, "="); !hasFlag(args, name) {
			args = append(args, flag)
		}
	}
	process := &Process{Command: append([]string{in.Files[in.program]}, args...)}
	process.Command = append(process.Command, "--"+e.listen+"="+in.listen(address, e.port))
	if e.env != "" {
		process.Env = map[string]string{e.env: in.listen(address, e.port)}
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
