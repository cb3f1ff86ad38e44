package recipe

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"loadstone/lab/topology"
)

// cassandraInstance is the first of two of cassandra, with the variables given.
func cassandraInstance(t *testing.T, env map[string]string, volumes ...topology.Volume) *Instance {
	t.Helper()
	in := testInstance(t, volumes...)
	in.Service.Name, in.Service.Environment = "cassandra", env
	in.Host = "127.77.1.21"
	in.Hosts["cassandra"] = []string{in.Host, "127.77.1.22"}
	in.Files = map[string]string{"cassandra-node": "/c/bin/cassandra-node", "nodetool": "/c/bin/nodetool"}
	return in
}

// node is what the instance's configuration says.
type node struct {
	Cluster string   `yaml:"cluster_name"`
	Tokens  int      `yaml:"num_tokens"`
	Snitch  string   `yaml:"endpoint_snitch"`
	Listen  string   `yaml:"listen_address"`
	RPC     string   `yaml:"rpc_address"`
	Told    string   `yaml:"broadcast_address"`
	Data    []string `yaml:"data_file_directories"`
	Log     string   `yaml:"commitlog_directory"`
	Rows    string   `yaml:"row_cache_size"`
	Seeds   []struct {
		Parameters []struct {
			Seeds string `yaml:"seeds"`
		} `yaml:"parameters"`
	} `yaml:"seed_provider"`
}

func startNode(t *testing.T, in *Instance) (*Process, node) {
	t.Helper()
	p, err := startCassandra(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.Env["CASSANDRA_CONF"], "cassandra.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var n node
	if err := yaml.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return p, n
}

func TestCassandrasVariablesAreItsSettings(t *testing.T) {
	t.Parallel()
	in := cassandraInstance(t, map[string]string{
		"CASSANDRA_CLUSTER_NAME": "kitchen: 1", "CASSANDRA_NUM_TOKENS": "4", "CASSANDRA_ENDPOINT_SNITCH": "GossipingPropertyFileSnitch",
		"CASSANDRA_RACK": "r2", "MAX_HEAP_SIZE": "300M", "JVM_EXTRA_OPTS": "-Da=1  -Xmx301M",
	})
	in.Hosts["cassandra"] = []string{in.Host}
	in.Service.Arguments = []string{"cassandra", "-f", "-R", "-Dcassandra.x=y"}
	p, got := startNode(t, in)
	data := in.Dir + "/root/var/lib/cassandra"
	if got.Cluster != "kitchen: 1" || got.Tokens != 4 || got.Snitch != "GossipingPropertyFileSnitch" || got.Listen != in.Host || got.RPC != in.Host {
		t.Errorf("got %+v", got)
	}
	if got.Seeds[0].Parameters[0].Seeds != in.Host || !slices.Equal(got.Data, []string{data + "/data"}) || got.Log != data+"/commitlog" {
		t.Errorf("got %+v", got)
	}
	if rack, err := os.ReadFile(filepath.Join(in.Dir, "conf/cassandra-rackdc.properties")); string(rack) != "dc=dc1\nrack=r2\n" {
		t.Errorf("got %q, %v", rack, err)
	}
	for _, want := range []string{"-Xms300M", "-Xmx300M", "-Dcassandra.storagedir=" + data, "-Dcom.sun.management.jmxremote.host=" + in.Host, "-Dcom.sun.management.jmxremote.port=7199"} {
		if !slices.Contains(p.Command, want) {
			t.Errorf("%s is not in %q", want, p.Command)
		}
	}
	if n := len(p.Command); !slices.Equal(p.Command[n-3:], []string{"-Da=1", "-Xmx301M", "-Dcassandra.x=y"}) || p.Env["JVM_EXTRA_OPTS"] != "" {
		t.Errorf("got %q with %q", p.Command, p.Env)
	}
}

func TestCassandraTakesItsMountedFile(t *testing.T) {
	t.Parallel()
	in := cassandraInstance(t, map[string]string{"CASSANDRA_SEEDS": "localhost, one,api:7001,elsewhere,one"},
		topology.Volume{Target: cassandraConfig, Text: "cluster_name: own\nrow_cache_size: 8MiB\nlisten_address: localhost\nbroadcast_address: 10.0.0.1\ncommitlog_directory: /log\n"},
		topology.Volume{Name: "data", Target: "/var/lib/cassandra"}, topology.Volume{Name: "log", Target: "/log"})
	dir := t.TempDir()
	in.Volumes = map[string]string{"data": dir, "log": "/volumes/log"}
	limit := uint64(1000 << 20)
	in.Service.Limits.Memory = &limit
	p, got := startNode(t, in)
	if got.Cluster != "own" || got.Rows != "8MiB" || got.Told != "" || got.Listen != in.Host || got.Log != "/volumes/log/node-1" {
		t.Errorf("got %+v", got)
	}
	if want := []string{dir + "/node-1/data"}; !slices.Equal(got.Data, want) {
		t.Errorf("got data in %q, want %q: each node has a directory of its own", got.Data, want)
	}
	if seeds, want := got.Seeds[0].Parameters[0].Seeds, "127.77.1.21,127.77.1.3,127.77.1.1:7001,elsewhere"; seeds != want {
		t.Errorf("got seeds %q, want %q", seeds, want)
	}
	if !slices.Contains(p.Command, "-Xmx500m") {
		t.Errorf("got %q, want half of the memory limit as the heap", p.Command)
	}
}

func TestANodeWaitsForTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	second := func(port int) *Instance {
		in := cassandraInstance(t, nil, topology.Volume{Target: cassandraConfig, Text: "native_transport_port: " + strconv.Itoa(port) + "\n"})
		in.Hosts["cassandra"] = []string{"127.0.0.1", in.Host}
		return in
	}
	if _, err := startCassandra(t.Context(), second(port)); err != nil {
		t.Error(err)
	}
	gone := errors.New("cassandra-1 ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := startCassandra(ctx, second(1)); !errors.Is(err, gone) {
		t.Errorf("got %v, want why it waits no longer", err)
	}
}

func TestWhatCassandraCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	f := func(in *Instance, want string) {
		t.Helper()
		if _, err := startCassandra(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(cassandraInstance(t, map[string]string{"CASSANDRA_NUM_TOKENS": "many"}), `CASSANDRA_NUM_TOKENS is "many"; it has to be a number`)
	f(cassandraInstance(t, nil, topology.Volume{Target: cassandraConfig, Text: "a: [\n"}), "read its configuration /etc/cassandra/cassandra.yaml")
	in := cassandraInstance(t, nil)
	in.Service.Arguments = []string{"cassandra", "--x"}
	f(in, `the recipe does not support its argument "--x"`)
	in.Service.Arguments = []string{"sh"}
	f(in, "x-process")
}

func TestWhatIsFetchedIsLookedForInTheCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for _, version := range []string{"4.1.9", "5.0.9"} {
		dir := filepath.Join(cache, "loadstone", "cassandra-"+version, "bin")
		program(t, dir, "cassandra-node", version)
		program(t, dir, "nodetool", "")
	}
	r, _ := Find("cassandra:5.0")
	found, err := r.Locate(t.Context(), "cassandra:5.0", "/nowhere")
	if err != nil || found.Files["nodetool"] != filepath.Join(cache, "loadstone/cassandra-5.0.9/bin/nodetool") || found.Warning != "" {
		t.Errorf("got %+v, %v", found, err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := r.Locate(t.Context(), "cassandra", "/nowhere"); err == nil || !strings.Contains(err.Error(), "get it with `make deps`") {
		t.Errorf("got %v", err)
	}
}
