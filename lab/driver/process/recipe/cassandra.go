package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

const (
	cassandraPort   = 9042
	cassandraData   = "/var/lib/cassandra"
	cassandraConfig = "/etc/cassandra/cassandra.yaml"
	cassandraJMX    = 7199
	// cassandraHeap is what a node without MAX_HEAP_SIZE and without a memory
	// limit gets. The image would take a quarter of the machine's memory, and the
	// machine here is shared with all that is measured.
	cassandraHeap = 1 << 30
	// joinWithin bounds the wait for the node before this one to have joined: a
	// minute on a quiet machine, and some more on one that is busy.
	joinWithin = 5 * time.Minute
	// joinPause is between two looks at it.
	joinPause = 200 * time.Millisecond
)

// cassandraStandard is the configuration of a service that mounts none: the
// settings that the image's own file has and that are not the program's own
// defaults.
const cassandraStandard = `
cluster_name: Test Cluster
num_tokens: 16
allocate_tokens_for_local_replication_factor: 3
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
commitlog_sync: periodic
commitlog_sync_period: 10000ms
`

// cassandra is one start of a node.
type cassandra struct {
	*Instance

	group group
	set   yaml.MapSlice // its cassandra.yaml
	conf  string        // the directory that holds it
	data  string
}

// startCassandra has the official image's contract: CASSANDRA_CLUSTER_NAME,
// CASSANDRA_SEEDS, CASSANDRA_NUM_TOKENS, CASSANDRA_ENDPOINT_SNITCH, CASSANDRA_DC
// and CASSANDRA_RACK go into its configuration, which may be mounted at
// /etc/cassandra/cassandra.yaml; MAX_HEAP_SIZE, JVM_OPTS and JVM_EXTRA_OPTS go to
// Java; data is in /var/lib/cassandra. The last of them can change any
// setting, as in the image:
//
//	JVM_EXTRA_OPTS: -Dcassandra.config.allow_system_properties=true -Dcassandra.settings.row_cache_size=32MiB
//
// The node has the usual ports on its instance's own address, JMX (7199) too,
// which is where nodetool in a health check asks.
//
// The replicas of a service are a cluster. The first is its seed, a name in
// CASSANDRA_SEEDS that has several instances stands for its first, and each node
// starts when the one before it has joined, because Cassandra lets one join at a
// time. The waits that are meant for a network (for gossip to settle, for a
// ring's news to spread) are short: here it takes microseconds.
func startCassandra(ctx context.Context, in *Instance) (*Process, error) {
	options, err := in.arguments([]string{"cassandra"})
	if err != nil {
		return nil, err
	}
	options = slices.DeleteFunc(options, func(o string) bool { return o == "-f" || o == "-R" }) // it is both anyway
	if i := slices.IndexFunc(options, func(o string) bool { return !strings.HasPrefix(o, "-D") }); i >= 0 {
		return nil, fmt.Errorf("the recipe does not support its argument %q; it supports -f, -R and Java's -D", options[i])
	}
	c := &cassandra{Instance: in, group: in.ownGroup(), conf: filepath.Join(in.Dir, "conf")}
	if err := c.configure(); err != nil {
		return nil, err
	}
	if err := c.writeConfig(); err != nil {
		return nil, err
	}
	if err := c.awaitTurn(ctx); err != nil {
		return nil, err
	}
	env := map[string]string{
		"PATH":            filepath.Dir(in.Files["cassandra-node"]) + ":" + in.Path,
		"CASSANDRA_CONF":  c.conf,
		"NODETOOL_HOST":   in.Host,
		"JVM_OPTS":        "", // they are arguments
		"JVM_EXTRA_OPTS":  "",
		"CASSANDRA_SEEDS": c.seeds(), // addresses, for whoever reads it
	}
	command := append([]string{in.Files["cassandra-node"]}, c.javaOptions()...)
	return &Process{Command: append(command, options...), Env: env}, nil
}

// configure makes the node's configuration.
func (c *cassandra) configure() error {
	text := []byte(cassandraStandard)
	if file, ok := c.mounted(cassandraConfig); ok {
		var err error
		if text, err = os.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
			text = []byte(cassandraStandard) // its directory is mounted, for other files
		} else if err != nil {
			return fmt.Errorf("read its configuration: %w", err)
		}
	}
	if err := yaml.Unmarshal(text, &c.set); err != nil {
		return fmt.Errorf("read its configuration %s: %w", cassandraConfig, err)
	}
	env := c.Service.Environment
	for setting, variable := range map[string]string{
		"cluster_name": "CASSANDRA_CLUSTER_NAME", "endpoint_snitch": "CASSANDRA_ENDPOINT_SNITCH",
	} {
		if env[variable] != "" {
			c.put(setting, env[variable])
		}
	}
	if tokens := env["CASSANDRA_NUM_TOKENS"]; tokens != "" {
		n, err := strconv.Atoi(tokens)
		if err != nil {
			return fmt.Errorf("CASSANDRA_NUM_TOKENS is %q; it has to be a number", tokens)
		}
		c.put("num_tokens", n)
	}
	for _, name := range []string{"listen_interface", "rpc_interface", "broadcast_address", "broadcast_rpc_address", "listen_on_broadcast_address"} {
		c.drop(name)
	}
	c.put("listen_address", c.Host)
	c.put("rpc_address", c.Host)
	c.put("seed_provider", []any{map[string]any{
		"class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
		"parameters": []any{map[string]any{"seeds": c.seeds()}},
	}})
	return c.directories()
}

// seeds are the addresses of the nodes that a new one asks for the others.
func (c *cassandra) seeds() string {
	var all []string
	for name := range strings.SplitSeq(c.Service.Environment["CASSANDRA_SEEDS"], ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			host, port = name, ""
		}
		// One of a service's: a node that finds itself among the seeds does not
		// fetch its part of the data.
		if found := c.Hosts[host]; len(found) > 0 {
			host = found[0]
		} else if host == "localhost" || host == "127.0.0.1" {
			host = c.group.members[0]
		}
		if port != "" {
			host = net.JoinHostPort(host, port)
		}
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	if len(all) == 0 {
		return c.group.members[0]
	}
	return strings.Join(all, ",")
}

// directories puts the node's data where the volumes are.
func (c *cassandra) directories() error {
	var err error
	if c.data, err = c.dataDir(path.Join(cassandraData, c.group.subDir())); err != nil {
		return err
	}
	place := func(name, standard string) string {
		inside, ok := c.get(name).(string)
		if !ok || inside == "" {
			return filepath.Join(c.data, standard)
		}
		if rest, ok := below(path.Clean(inside), cassandraData); ok {
			return filepath.Join(c.data, rest)
		}
		return c.path(path.Join(inside, c.group.subDir()))
	}
	for name, standard := range map[string]string{
		"commitlog_directory": "commitlog", "saved_caches_directory": "saved_caches", "hints_directory": "hints", "cdc_raw_directory": "cdc_raw",
	} {
		c.put(name, place(name, standard))
	}
	c.put("data_file_directories", []any{filepath.Join(c.data, "data")})
	return nil
}

func (c *cassandra) get(name string) any {
	for _, item := range c.set {
		if item.Key == name {
			return item.Value
		}
	}
	return nil
}

func (c *cassandra) drop(name string) {
	c.set = slices.DeleteFunc(c.set, func(item yaml.MapItem) bool { return item.Key == name })
}

func (c *cassandra) put(name string, value any) {
	c.drop(name)
	c.set = append(c.set, yaml.MapItem{Key: name, Value: value})
}

func (c *cassandra) writeConfig() error {
	text, err := yaml.Marshal(c.set)
	if err != nil {
		return fmt.Errorf("write its configuration: %w", err)
	}
	env := c.Service.Environment
	rack := map[string]string{"dc": cmp.Or(env["CASSANDRA_DC"], "dc1"), "rack": cmp.Or(env["CASSANDRA_RACK"], "rack1")} // as the image has them
	return errors.Join(
		c.write(filepath.Join(c.conf, "cassandra.yaml"), text, 0o644),
		c.write(filepath.Join(c.conf, "cassandra-rackdc.properties"), properties(rack), 0o644))
}

// javaOptions are those of this node; a later one replaces an earlier one.
func (c *cassandra) javaOptions() []string {
	env := c.Service.Environment
	heap := cmp.Or(env["MAX_HEAP_SIZE"], strconv.FormatUint(c.heapWithin(cassandraHeap)>>20, 10)+"m")
	options := []string{
		"-Xms" + heap, "-Xmx" + heap, "-Djava.io.tmpdir=" + c.Dir, "-Djna.tmpdir=" + c.Dir, // its libraries unpack themselves
		"-Dcassandra.config=file://" + filepath.Join(c.conf, "cassandra.yaml"),
		"-Dcassandra.storagedir=" + c.data, "-Dcassandra.logdir=" + filepath.Join(c.Dir, "logs"),
		"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=2000",
		// Java's own agent, because Cassandra's server takes an address only for
		// 127.0.0.1, where each node would want the same port.
		"-Djava.rmi.server.hostname=" + c.Host, "-Dcom.sun.management.jmxremote.host=" + c.Host,
		"-Dcom.sun.management.jmxremote.authenticate=false", "-Dcom.sun.management.jmxremote.ssl=false",
	}
	for _, port := range []string{"port", "rmi.port"} {
		options = append(options, fmt.Sprintf("-Dcom.sun.management.jmxremote.%s=%d", port, cassandraJMX))
	}
	options = append(options, strings.Fields(env["JVM_OPTS"])...)
	return append(options, strings.Fields(env["JVM_EXTRA_OPTS"])...)
}

// awaitTurn waits until the node before this one serves clients, which is when
// it has joined. Its end ends the wait by ctx.
func (c *cassandra) awaitTurn(ctx context.Context) error {
	if c.group.index == 0 {
		return nil
	}
	port := strconv.Itoa(cassandraPort)
	if own := c.get("native_transport_port"); own != nil {
		port = fmt.Sprint(own)
	}
	address := net.JoinHostPort(c.group.members[c.group.index-1], port)
	bounded, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	dialer := net.Dialer{Timeout: time.Second} // over loopback; a busy node may take a while
	for {
		conn, err := dialer.DialContext(bounded, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("wait for the node before it, at %s: %w", address, context.Cause(ctx))
			}
			return fmt.Errorf("the node before it does not serve clients at %s after %v: %w", address, joinWithin, err)
		case <-time.After(joinPause):
		}
	}
}
