package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	kafkaPort       = 9092
	kafkaController = 9093
	// kafkaLogs is where the image's own configuration has its data.
	kafkaLogs = "/tmp/kraft-combined-logs"
	// kafkaCluster is the image's, for a service that sets no CLUSTER_ID.
	kafkaCluster = "5L6g3nShT-eMCtK--X86sw"
	// kafkaHeap is the image's; what a memory limit leaves of it is heapWithin's.
	kafkaHeap = 1 << 30
	// formatHeap is ample for a program that writes two small files.
	formatHeap = "-Xmx64m"
)

// kafkaOptions are variables that begin with KAFKA_ and are no settings of the
// broker: its scripts read them.
var kafkaOptions = []string{
	"KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
	"KAFKA_JMX_OPTS", "KAFKA_JMX_HOSTNAME", "KAFKA_JMX_PORT", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL",
}

// kafkaIgnored are those of them that have no effect here.
var kafkaIgnored = kafkaOptions[6:]

// kafka is one start of a broker, a controller, or both.
type kafka struct {
	*Instance

	set   map[string]string // its server.properties
	group group
}

// startKafka has the official image's contract: each variable KAFKA_A_B is the
// setting a.b (__ is _, ___ is -), CLUSTER_ID is the cluster's, KAFKA_HEAP_OPTS,
// KAFKA_OPTS and KAFKA_JVM_PERFORMANCE_OPTS go to Java, and data that is not
// formatted yet is formatted. Without settings it is one node, broker and
// controller, on 9092 and 9093.
//
// It is more lenient in three things. What is not set has the value of the
// image's own configuration even if something else is set. The internal topics
// have three replicas or as many as there are nodes, so that one node works. And
// the replicas of a service are a cluster: the first has the node id that is
// set (1 if none is), the others those that follow, each has a directory of its
// own in the volume, and an entry of the quorum's voters that names a service
// stands for all of its instances.
//
// The node listens on its instance's own address and says that to clients, by
// the port that it listens on: nothing is mapped here.
func startKafka(ctx context.Context, in *Instance) (*Process, error) {
	if len(in.Service.Arguments) > 0 {
		return nil, fmt.Errorf("its command is %q, but the recipe configures a broker only by its KAFKA_ settings; leave the command out, or set x-process to the program to start", in.Service.Arguments)
	}
	k := &kafka{Instance: in, group: in.ownGroup(), set: kafkaSettings(in.Service.Environment)}
	if _, ok := in.mounted("/mnt/shared/config"); ok {
		in.Warnf("what is mounted at /mnt/shared/config is not read: the recipe takes a broker's settings from KAFKA_ variables")
	}
	for _, name := range kafkaIgnored {
		if in.Service.Environment[name] != "" {
			in.Warnf("%s has no effect here", name)
		}
	}
	if err := k.configure(); err != nil {
		return nil, err
	}
	file := filepath.Join(in.Dir, "server.properties")
	if err := in.write(file, properties(k.set), 0o644); err != nil {
		return nil, err
	}
	env := k.environment()
	if err := k.format(ctx, file, env); err != nil {
		return nil, err
	}
	return &Process{Command: []string{in.Files["kafka-server-start.sh"], file}, Env: env}, nil
}

// kafkaSettings are the settings that an environment has.
func kafkaSettings(env map[string]string) map[string]string {
	name := strings.NewReplacer("___", "-", "__", "_", "_", ".")
	set := map[string]string{}
	for variable, value := range env {
		if rest, ok := strings.CutPrefix(variable, "KAFKA_"); ok && !slices.Contains(kafkaOptions, variable) {
			set[name.Replace(strings.ToLower(rest))] = value
		}
	}
	return set
}

// properties is a file of Java properties, sorted by name.
func properties(set map[string]string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&b, "%s=%s\n", name, escape.Replace(set[name]))
	}
	return []byte(b.String())
}

// standard sets what is not set.
func (k *kafka) standard(name, value string) {
	k.set[name] = cmp.Or(k.set[name], value)
}

func (k *kafka) configure() error {
	if k.set["controller.quorum.bootstrap.servers"] != "" {
		return errors.New("KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS is for a dynamic quorum, but the recipe supports only a static one; list its members in KAFKA_CONTROLLER_QUORUM_VOTERS instead")
	}
	k.standard("process.roles", "broker,controller")
	k.standard("node.id", "1")
	k.standard("controller.listener.names", "CONTROLLER")
	k.standard("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL")
	id, err := strconv.Atoi(k.set["node.id"])
	if err != nil {
		return fmt.Errorf("KAFKA_NODE_ID is %q; it has to be a number", k.set["node.id"])
	}
	k.set["node.id"] = strconv.Itoa(id + k.group.index)
	ports, err := k.listeners()
	if err != nil {
		return err
	}
	voters, err := k.voters(id, ports)
	if err != nil {
		return err
	}
	copies := min(max(len(voters), len(k.group.members)), 3)
	for _, topic := range []string{"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"} {
		k.standard(topic+".replication.factor", strconv.Itoa(copies))
	}
	for _, topic := range []string{"transaction.state.log", "share.coordinator.state.topic"} {
		k.standard(topic+".min.isr", strconv.Itoa(max(copies-1, 1)))
	}
	return k.directories()
}

// directories puts its data where the volumes are.
func (k *kafka) directories() error {
	name := "log.dirs"
	if k.set[name] == "" && k.set["log.dir"] != "" {
		name = "log.dir"
	}
	k.standard(name, kafkaLogs)
	names := []string{name}
	if k.set["metadata.log.dir"] != "" {
		names = append(names, "metadata.log.dir")
	}
	for _, name := range names {
		var dirs []string
		for dir := range strings.SplitSeq(k.set[name], ",") {
			host, err := k.dataDir(path.Join(strings.TrimSpace(dir), k.group.subDir()))
			if err != nil {
				return err
			}
			dirs = append(dirs, host)
		}
		k.set[name] = strings.Join(dirs, ",")
	}
	return nil
}

// environment is what the broker, its health checks and its format get.
func (k *kafka) environment() map[string]string {
	given := k.Service.Environment
	env := map[string]string{
		"PATH": filepath.Dir(k.Files["kafka-server-start.sh"]) + ":" + k.Path, "LOG_DIR": filepath.Join(k.Dir, "logs"),
		"KAFKA_OPTS": strings.TrimSpace("-Djava.io.tmpdir=" + k.Dir + " " + given["KAFKA_OPTS"]), // its libraries unpack themselves
	}
	if given["KAFKA_HEAP_OPTS"] == "" {
		heap := strconv.FormatUint(k.heapWithin(kafkaHeap)>>20, 10)
		env["KAFKA_HEAP_OPTS"] = "-Xmx" + heap + "m -Xms" + heap + "m"
	}
	return env
}

// format prepares the directories of data that are new. What it did not finish
// it does again: a directory is formatted when meta.properties is there.
func (k *kafka) format(ctx context.Context, file string, env map[string]string) error {
	formatted := true
	for _, name := range []string{"log.dirs", "log.dir", "metadata.log.dir"} {
		for dir := range strings.SplitSeq(k.set[name], ",") {
			if dir == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, "meta.properties")); errors.Is(err, fs.ErrNotExist) {
				formatted = false
			} else if err != nil {
				return err
			}
		}
	}
	if formatted {
		return nil
	}
	cluster := cmp.Or(k.Service.Environment["CLUSTER_ID"], kafkaCluster)
	more := maps.Clone(env)
	more["KAFKA_HEAP_OPTS"] = formatHeap
	step := Step{Command: []string{k.Files["kafka-storage.sh"], "format", "--ignore-formatted", "-t", cluster, "-c", file}, Env: more}
	if err := k.Run(ctx, step); err != nil {
		return fmt.Errorf("format its data: %w", err)
	}
	return nil
}

// listeners puts the instance's own address into the listeners and into those
// that are told to clients. It returns the listeners' ports by name.
func (k *kafka) listeners() (map[string]string, error) {
	roles, controller := k.set["process.roles"], k.controller()
	isBroker, isController := strings.Contains(roles, "broker"), strings.Contains(roles, "controller")
	var own, told []string
	if isBroker {
		own = append(own, fmt.Sprintf("PLAINTEXT://:%d", kafkaPort))
	}
	if isController {
		own = append(own, fmt.Sprintf("%s://:%d", controller, kafkaController))
	}
	k.standard("listeners", strings.Join(own, ","))
	own = nil
	ports := map[string]string{}
	for text := range strings.SplitSeq(k.set["listeners"], ",") {
		name, _, port, err := listener(text)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_LISTENERS: %w", err)
		}
		ports[name] = port
		own = append(own, name+"://"+net.JoinHostPort(k.Host, port))
		if name != controller && isBroker {
			told = append(told, own[len(own)-1])
		}
	}
	k.set["listeners"] = strings.Join(own, ",")
	if text := k.set["advertised.listeners"]; text != "" {
		told = nil
		for text := range strings.SplitSeq(text, ",") {
			name, host, port, err := listener(text)
			if err != nil {
				return nil, fmt.Errorf("KAFKA_ADVERTISED_LISTENERS: %w", err)
			}
			told = append(told, name+"://"+k.advertised(host, port, ports[name]))
		}
	}
	if len(told) > 0 {
		k.set["advertised.listeners"] = strings.Join(told, ",")
	}
	return ports, nil
}

// advertised is where clients find a listener: at another service if that is
// what it says, such as a proxy, else at this instance.
func (k *kafka) advertised(host, port, own string) string {
	others := k.Hosts[host]
	if host != k.Service.Name && len(others) > 0 && !slices.Contains(others, k.Host) {
		return net.JoinHostPort(others[min(k.group.index, len(others)-1)], port)
	}
	return net.JoinHostPort(k.Host, cmp.Or(own, port))
}

// controller is the name of the controllers' listener.
func (k *kafka) controller() string {
	name, _, _ := strings.Cut(k.set["controller.listener.names"], ",")
	return strings.TrimSpace(name)
}

// listener reads NAME://HOST:PORT; the host may be empty.
func listener(text string) (name, host, port string, err error) {
	name, address, ok := strings.Cut(strings.TrimSpace(text), "://")
	if ok {
		host, port, err = net.SplitHostPort(address)
	}
	if !ok || err != nil || name == "" || port == "" {
		return "", "", "", fmt.Errorf("%q is not a listener; write it as PLAINTEXT://:%d", text, kafkaPort)
	}
	return name, host, port, nil
}

// voters sets the members of the quorum, by their addresses; first is the id of
// the service's first instance. A name that stands for several instances
// becomes as many members.
func (k *kafka) voters(first int, ports map[string]string) ([]string, error) {
	const name = "controller.quorum.voters"
	if k.set[name] == "" {
		port := ports[k.controller()]
		if port == "" {
			return nil, fmt.Errorf("it is not a controller, and KAFKA_CONTROLLER_QUORUM_VOTERS is not set; set it, for example to 1@controller:%d", kafkaController)
		}
		k.set[name] = fmt.Sprintf("%d@localhost:%s", first, port)
	}
	var voters []string
	seen := map[int]bool{}
	for text := range strings.SplitSeq(k.set[name], ",") {
		number, address, _ := strings.Cut(strings.TrimSpace(text), "@")
		id, err := strconv.Atoi(number)
		host, port, errAddress := net.SplitHostPort(address)
		if err != nil || errAddress != nil {
			return nil, fmt.Errorf("KAFKA_CONTROLLER_QUORUM_VOTERS: %q is not a voter; write it as 1@%s:%d", text, k.Service.Name, kafkaController)
		}
		for i, member := range k.members(host) {
			if seen[id+i] {
				return nil, fmt.Errorf("KAFKA_CONTROLLER_QUORUM_VOTERS: %q is the second voter with the id %d; a service with several instances needs one entry, with the id of the first", text, id+i)
			}
			seen[id+i] = true
			voters = append(voters, fmt.Sprintf("%d@%s", id+i, net.JoinHostPort(member, port)))
		}
	}
	k.set[name] = strings.Join(voters, ",")
	return voters, nil
}

// members are the addresses of a voter's host.
func (k *kafka) members(host string) []string {
	switch {
	case len(k.Hosts[host]) > 0:
		return k.Hosts[host]
	case host == "localhost" || host == "127.0.0.1":
		return k.group.members
	}
	return []string{host}
}
