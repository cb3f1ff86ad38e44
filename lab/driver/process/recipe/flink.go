package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// A task manager has no port that the image exposes; a service that says so is ready once it listens.
const (
	flinkPort       = 8081
	flinkWorkerPort = "6122"
)

// Of a process of Flink, in MiB. A JVM of Flink says how much it has of each; these are for the machine of a
// developer, where the image's own, 1.7 GiB, is for one of a cluster.
const (
	flinkManager   = 448 // jobmanager.memory.process.size
	flinkWorker    = 512 // taskmanager.memory.process.size
	flinkMetaspace = 112
	flinkOverhead  = 64
	flinkDirect    = 96 // of which the network has flinkNetwork
	flinkNetwork   = 16
)

// flinkSizes are all of a process's memory, in MiB, but for its heap, by Flink's names.
var flinkSizes = map[string]int{
	"jobmanager.memory.off-heap.size": flinkDirect, "jobmanager.memory.jvm-metaspace.size": flinkMetaspace,
	"jobmanager.memory.jvm-overhead.min": flinkOverhead, "jobmanager.memory.jvm-overhead.max": flinkOverhead,
	"taskmanager.memory.framework.off-heap.size": flinkDirect - 2*flinkNetwork, "taskmanager.memory.task.off-heap.size": flinkNetwork,
	"taskmanager.memory.network.min": flinkNetwork, "taskmanager.memory.network.max": flinkNetwork, "taskmanager.memory.managed.size": 0,
	"taskmanager.memory.jvm-metaspace.size": flinkMetaspace,
	"taskmanager.memory.jvm-overhead.min":   flinkOverhead, "taskmanager.memory.jvm-overhead.max": flinkOverhead,
}

// flinkPatience is how long a process waits for its own network to start: 10 s by default, which are too few on a
// busy machine. Flink's setting pekko.startup-timeout goes to a path that Pekko does not read (Flink 2.3).
const flinkPatience = "-Dpekko.remote.classic.startup-timeout=120s"

// startFlink has the official image's contract for the commands jobmanager, standalone-job, which is a job manager with the
// one job that it runs, taskmanager and flink: FLINK_PROPERTIES has lines of config.yaml, and the job manager is at
// jobmanager.rpc.address, a service or a host. The job of standalone-job is in the files of --jars; there is no usrlib.
//
// The image derives the sizes of a JVM from jobmanager.memory.process.size and
// taskmanager.memory.process.size. So does this, by a simpler rule: what the metaspace, the overhead and direct
// memory leave is the heap. There is no managed memory: state is on the heap. The other sizes of memory are as
// flinkSizes has them: a file that says so has the image take the same, which refuses so small a process else.
//
// Files of the configuration directory are not read, and no library is added: what is in the distribution, the
// connector with Kafka among it, is all.
func startFlink(_ context.Context, in *Instance) (*Process, error) {
	if len(in.Service.Arguments) == 0 {
		return nil, errors.New("it has no command; write jobmanager, standalone-job, taskmanager or flink with its arguments")
	}
	set, err := flinkProperties(in.Service.Environment["FLINK_PROPERTIES"])
	if err != nil {
		return nil, err
	}
	if address, ok := set["jobmanager.rpc.address"]; ok {
		if found, known := in.addresses(address); known {
			set["jobmanager.rpc.address"] = found[0]
		}
	}
	standard := func(name, value string) { set[name] = cmp.Or(set[name], value) }
	standard("jobmanager.rpc.port", "6123")
	standard("rest.port", strconv.Itoa(flinkPort))
	standard("io.tmp.dirs", filepath.Join(in.Dir, "tmp"))
	standard("user.artifacts.base-dir", filepath.Join(in.Dir, "artifacts"))
	role, args := in.Service.Arguments[0], in.Service.Arguments[1:]
	memory := ""
	switch role {
	case "jobmanager", "standalone-job":
		memory, err = flinkJobManager(in, set)
		args = in.pathFlags(args)
		err = errors.Join(err, flinkJars(args))
	case "taskmanager":
		memory, err = flinkTaskManager(in, set)
	case "flink":
		memory = "-Xmx128m" // it reads the job's graph, and ends
		args = flinkArguments(in, args)
	default:
		err = fmt.Errorf("its command begins with %q, but the recipe starts only jobmanager, standalone-job, taskmanager and flink; write one of those, or set x-process to the program to start", role)
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(in.Dir, "conf")
	if err := in.write(filepath.Join(dir, "config.yaml"), flinkConfig(set), 0o644); err != nil {
		return nil, err
	}
	env := map[string]string{"FLINK_CONF_DIR": dir, "JVM_ARGS": strings.TrimSpace(memory + " " + flinkPatience + " -Djava.io.tmpdir=" + in.Dir + " " + in.Service.Environment["JVM_ARGS"])}
	if role == "flink" {
		return &Process{Command: append([]string{in.Files["flink"]}, args...), Env: env}, nil
	}
	return &Process{Command: append([]string{in.Files["flink-"+role], "--configDir", dir}, args...), Env: env}, nil
}

// flinkJars says which file of --jars is not there; Flink says so half a minute later, with a stack trace.
func flinkJars(args []string) error {
	for i := 1; i < len(args); i++ {
		if args[i-1] != "--jars" {
			continue
		}
		for file := range strings.SplitSeq(args[i], ",") {
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && !strings.Contains(file, ":") {
				return fmt.Errorf("the file %s of --jars does not exist; build it first, or correct what is mounted", file)
			}
		}
	}
	return nil
}

// flinkArguments are those of the command line, with its files and the job manager where they are here.
func flinkArguments(in *Instance, args []string) []string {
	args = in.pathFlags(args)
	for i := 1; i < len(args); i++ {
		if args[i-1] == "-m" || args[i-1] == "--jobmanager" {
			args[i] = in.at(args[i])
		}
	}
	return args
}

// flinkProperties are the lines of FLINK_PROPERTIES.
func flinkProperties(text string) (map[string]string, error) {
	set := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("FLINK_PROPERTIES has the line %q; write NAME: VALUE", line)
		}
		set[name] = strings.Trim(strings.TrimSpace(value), `"'`)
	}
	for name, text := range set {
		if !strings.Contains(name, ".memory.") || strings.HasSuffix(name, ".memory.process.size") || strings.Contains(name, ".buffer-debloat.") {
			continue
		}
		own, known := flinkSizes[name]
		if !known {
			return nil, fmt.Errorf("FLINK_PROPERTIES sets %s, but the recipe sizes a process by jobmanager.memory.process.size and taskmanager.memory.process.size alone; set those", name)
		}
		if size, err := flinkMebibytes(name, text); err != nil || size != own {
			return nil, errors.Join(err, fmt.Errorf("FLINK_PROPERTIES sets %s to %s, but the recipe has %dm for it; write that, or leave it out", name, text, own))
		}
		delete(set, name)
	}
	return set, nil
}

// flinkConfig is config.yaml.
func flinkConfig(set map[string]string) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, err := yaml.Marshal(set[name])
		if err != nil {
			continue // a text can always be written
		}
		fmt.Fprintf(&b, "%s: %s", name, value)
	}
	return []byte(b.String())
}

var flinkSize = regexp.MustCompile(`^(\d{1,6})([mMgG])[bB]?$`)

// flinkMebibytes reads a size.
func flinkMebibytes(name, text string) (int, error) {
	found := flinkSize.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s is %q; write mebibytes or gibibytes, such as 512m or 1g", name, text)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		return 0, fmt.Errorf("%s is %q: %w", name, text, err)
	}
	if strings.EqualFold(found[2], "g") {
		n <<= 10
	}
	return n, nil
}

// flinkHeap is what of a process is left for its heap, in MiB.
func flinkHeap(in *Instance, set map[string]string, name string, own int) (size int, err error) {
	size = own
	if text := set[name]; text != "" {
		if size, err = flinkMebibytes(name, text); err != nil {
			return 0, err
		}
	} else if limit := in.Service.Limits.Memory; limit != nil {
		size = min(size, int(*limit>>20))
	}
	delete(set, name) // Flink would compute it anew
	const least = 64
	heap := size - flinkMetaspace - flinkOverhead - flinkDirect
	if heap < least {
		return 0, fmt.Errorf("%s is %d MiB, of which %d are left for its heap; set it to %dm or more", name, size, heap, least+flinkMetaspace+flinkOverhead+flinkDirect)
	}
	return heap, nil
}

// flinkJobManager is one at its instance's own address.
func flinkJobManager(in *Instance, set map[string]string) (memory string, err error) {
	for _, name := range []string{"jobmanager.rpc.address", "jobmanager.bind-host", "rest.address", "rest.bind-address"} {
		set[name] = in.Host
	}
	set["blob.server.port"] = cmp.Or(set["blob.server.port"], "6124")
	heap, err := flinkHeap(in, set, "jobmanager.memory.process.size", flinkManager)
	return fmt.Sprintf("-Xmx%dm -Xms%dm -XX:MaxMetaspaceSize=%dm", heap, heap, flinkMetaspace), err
}

// flinkTaskManager is one at its instance's own address, with as much memory of each kind as it says.
func flinkTaskManager(in *Instance, set map[string]string) (memory string, err error) {
	if set["jobmanager.rpc.address"] == "" {
		return "", errors.New("FLINK_PROPERTIES does not say where the job manager is; set jobmanager.rpc.address to its service")
	}
	heap, err := flinkHeap(in, set, "taskmanager.memory.process.size", flinkWorker)
	if err != nil {
		return "", err
	}
	set["taskmanager.host"], set["taskmanager.bind-host"] = in.Host, in.Host
	set["taskmanager.rpc.port"] = cmp.Or(set["taskmanager.rpc.port"], flinkWorkerPort)
	set["taskmanager.resource-id"] = cmp.Or(set["taskmanager.resource-id"], in.Service.Name+"-"+in.Host)
	set["taskmanager.cpu.cores"] = cmp.Or(set["taskmanager.cpu.cores"], "1")
	sizes := maps.Clone(flinkSizes)
	sizes["taskmanager.memory.framework.heap.size"], sizes["taskmanager.memory.task.heap.size"] = heap/2, heap-heap/2
	for name, mebibytes := range sizes {
		if strings.HasPrefix(name, "taskmanager.") {
			set[name] = strconv.Itoa(mebibytes) + "m"
		}
	}
	return fmt.Sprintf("-Xmx%dm -Xms%dm -XX:MaxDirectMemorySize=%dm -XX:MaxMetaspaceSize=%dm", heap, heap, flinkDirect, flinkMetaspace), nil
}
