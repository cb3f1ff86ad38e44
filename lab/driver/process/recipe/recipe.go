// Package recipe knows how well-known images start as local processes, with
// the contract of the official image: its environment, its port, its files and
// templates, its data directory, its command arguments and its stop signal.
//
// A recipe is data, one entry of the table in this file, and one start
// function in a file of its own. The function turns a service into a command;
// what has to happen before that (initdb) it does through Instance.Run, so that
// the driver owns every process: it limits, logs, guards and ends them.
//
// It does not imitate a container. There is no file system of the image: paths
// inside the container are translated, in arguments, in the environment
// variables that hold paths, and in the configuration files that a recipe
// understands (NGINX's, Prometheus's and Varnish's), which are rendered into the
// instance's own directory. What a service listens on is its instance's own
// loopback address, whatever address its configuration names.
//
// Programs run as the lab's own user, except PostgreSQL, which refuses root.
package recipe

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"loadstone/lab/topology"
)

// Recipe is how one image starts.
type Recipe struct {
	// Image is the repository's usual name: "postgres", "prom/prometheus".
	Image string
	// Programs are what has to be installed, all in one directory; the first
	// is the one that tells its version. Package is Debian's name for what they
	// are in; where no package has them it is empty, and Build is the command
	// that builds or fetches them in this project's sources.
	Programs []string
	Package  string
	Build    string
	// Port is the port that the image exposes.
	Port int
	// StopSignal is the image's own.
	StopSignal syscall.Signal
	// User is who it runs as if the lab is root and the service names nobody;
	// empty for the lab's own user.
	User string

	also         []string // other repositories with the same image
	dirs         []string // patterns of directories to look in before the PATH; below the user's cache directory if not absolute
	versionParts int      // how many numbers of a version make a major version
	shell        bool     // its entrypoint may be a shell, whose script finds the programs on its PATH
	start        func(context.Context, *Instance) (*Process, error)
}

// fetch gets what is written in Java, of which Debian has no packages.
const fetch = "make deps"

// recipes is the table: adding an image is an entry here and a start function.
var recipes = []*Recipe{
	{
		Image: "apache/kafka", Build: fetch, Port: kafkaPort, StopSignal: syscall.SIGTERM, versionParts: 1, start: startKafka,
		Programs: []string{"kafka-server-start.sh", "kafka-storage.sh"}, dirs: []string{"loadstone/kafka-*/bin", "/opt/kafka*/bin"},
		also: []string{"apache/kafka-native"},
	},
	{
		Image: "cadvisor/cadvisor", Programs: []string{"cadvisor"}, Build: "cd deploy/cadvisor && go build -o ../../.tools/bin/cadvisor .",
		Port: 8080, StopSignal: syscall.SIGTERM, versionParts: 1, start: startCadvisor, also: []string{"google/cadvisor"},
	},
	{
		Image: "cassandra", Build: fetch, Port: cassandraPort, StopSignal: syscall.SIGTERM, versionParts: 1, start: startCassandra,
		Programs: []string{"cassandra-node", "nodetool"}, dirs: []string{"loadstone/cassandra-*/bin"},
	},
	{
		Image: "flink", Build: fetch, Port: flinkPort, StopSignal: syscall.SIGTERM, versionParts: 1, start: startFlink,
		Programs: []string{"flink-jobmanager", "flink-standalone-job", "flink-taskmanager", "flink"}, dirs: []string{"loadstone/flink-*/bin"},
	},
	{
		Image: "mariadb", Programs: []string{"mariadbd"}, Package: "mariadb-server", Port: mariadbPort, StopSignal: syscall.SIGTERM,
		versionParts: 1, start: startMariaDB,
	},
	{
		Image: "nginx", Programs: []string{"nginx"}, Package: "nginx", Port: 80, StopSignal: syscall.SIGQUIT,
		versionParts: 2, start: startNginx, // 1.27 is as far from 1.22 as others' 27 from 22
	},
	{
		Image: "nginx/nginx-prometheus-exporter", Programs: []string{"prometheus-nginx-exporter"}, Package: "prometheus-nginx-exporter",
		Port: 9113, StopSignal: syscall.SIGTERM, versionParts: 1, start: nginxExporter.start,
	},
	{
		Image: "oliver006/redis_exporter", Programs: []string{"prometheus-redis-exporter"}, Package: "prometheus-redis-exporter",
		Port: 9121, StopSignal: syscall.SIGTERM, versionParts: 1, start: redisExporter.start,
	},
	{
		Image: "postgres", Programs: []string{"postgres", "initdb", "pg_ctl", "psql", "pg_isready"}, Package: "postgresql",
		Port: 5432, StopSignal: syscall.SIGINT, User: "postgres", versionParts: 1, start: startPostgres,
		dirs: []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"},
	},
	{
		Image: "prom/node-exporter", Programs: []string{"prometheus-node-exporter"}, Package: "prometheus-node-exporter",
		Port: 9100, StopSignal: syscall.SIGTERM, versionParts: 1, start: nodeExporter.start, also: []string{"prometheus/node-exporter"},
	},
	{
		Image: "prom/prometheus", Programs: []string{"prometheus"}, Package: "prometheus",
		Port: 9090, StopSignal: syscall.SIGTERM, versionParts: 1, start: startPrometheus, also: []string{"prometheus/prometheus"},
	},
	{
		Image: "prometheuscommunity/postgres-exporter", Programs: []string{"prometheus-postgres-exporter"}, Package: "prometheus-postgres-exporter",
		Port: 9187, StopSignal: syscall.SIGTERM, versionParts: 1, start: postgresExporter.start, also: []string{"prometheus-community/postgres-exporter"},
	},
	{
		Image: "redis", Programs: []string{"redis-server", "redis-cli"}, Package: "redis-server",
		Port: 6379, StopSignal: syscall.SIGTERM, versionParts: 1, start: startRedis,
	},
	{
		Image: "spark", Build: fetch, Port: sparkPort, StopSignal: syscall.SIGTERM, versionParts: 1, start: startSpark,
		Programs: []string{"spark-class", "spark-submit"}, dirs: []string{"loadstone/spark-*/bin"}, also: []string{"apache/spark"},
	},
	{
		Image: "varnish", Programs: []string{"varnishd"}, Package: "varnish", Port: 80, StopSignal: syscall.SIGTERM,
		versionParts: 1, start: startVarnish,
	},
	{
		Image: "versity/versitygw", Programs: []string{"versitygw"}, Build: "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
		Port: 7070, StopSignal: syscall.SIGTERM, versionParts: 1, shell: true, start: startVersitygw,
	},
}

// All are the recipes that there are, by image.
func All() []*Recipe { return slices.Clone(recipes) }

// Find is the recipe for an image, whatever its tag and its registry.
func Find(image string) (*Recipe, bool) {
	name, _ := topology.SplitImage(image)
	i := slices.IndexFunc(recipes, func(r *Recipe) bool { return r.Image == name || slices.Contains(r.also, name) })
	if i < 0 {
		return nil, false
	}
	return recipes[i], true
}

// numbers are the leading numbers of a version such as v1.22.1-alpine; none if
// it does not begin with one.
func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		all = append(all, n)
		if len(digits) != len(part) {
			break
		}
	}
	return all
}
