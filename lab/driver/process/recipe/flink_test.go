package recipe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// flinkInstance is a task manager, or what else the command says.
func flinkInstance(t *testing.T, properties string, command ...string) *Instance {
	t.Helper()
	in := testInstance(t)
	in.Service.Name, in.Service.Arguments = "workers", command
	in.Service.Environment = map[string]string{"FLINK_PROPERTIES": properties, "JVM_ARGS": "-Dx=y"}
	in.Host = "127.77.1.12"
	in.Hosts = map[string][]string{"manager": {"127.77.1.11"}, "workers": {in.Host, "127.77.1.13"}}
	in.Service.Volumes = []topology.Volume{{Source: "/dev/null", Target: "/job/job.jar"}}
	in.Files = map[string]string{"flink-jobmanager": "/f/flink-jobmanager", "flink-standalone-job": "/f/flink-standalone-job", "flink-taskmanager": "/f/flink-taskmanager", "flink": "/f/flink"}
	return in
}

func TestFlink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		properties string
		command    []string
		config     []string // lines of config.yaml
		jvm        string
		runs       []string // how it begins; "" is the directory of the configuration
	}{
		"a job manager is at its own address": {
			"jobmanager.rpc.address: manager\n# a remark\n\nheartbeat.timeout: 60000\n", []string{"jobmanager"},
			[]string{`jobmanager.rpc.address: 127.77.1.12`, `rest.bind-address: 127.77.1.12`, `heartbeat.timeout: "60000"`, `blob.server.port: "6124"`},
			"-Xmx176m -Xms176m -XX:MaxMetaspaceSize=112m", []string{"/f/flink-jobmanager", "--configDir"},
		},
		"a job manager with its job": {
			"jobmanager.rpc.address: manager\n", []string{"standalone-job", "--jars", "/job/job.jar", "--job-classname", "X", "--kafka", "kafka:9092"},
			[]string{`rest.address: 127.77.1.12`}, "-Xmx176m", []string{"/f/flink-standalone-job", "--configDir", "", "--jars", "/dev/null", "--job-classname", "X", "--kafka", "kafka:9092"},
		},
		"a task manager finds it, and says how much memory it has of each kind": {
			"jobmanager.rpc.address: manager\ntaskmanager.memory.process.size: 1g\ntaskmanager.numberOfTaskSlots: 4\n", []string{"taskmanager"},
			[]string{`jobmanager.rpc.address: 127.77.1.11`, `taskmanager.host: 127.77.1.12`, `taskmanager.numberOfTaskSlots: "4"`, `taskmanager.memory.task.heap.size: 376m`, `taskmanager.memory.managed.size: 0m`, `taskmanager.memory.network.max: 16m`},
			"-Xmx752m -Xms752m -XX:MaxDirectMemorySize=96m", []string{"/f/flink-taskmanager", "--configDir"},
		},
		"the sizes that it has may be said, for the image": {
			"jobmanager.memory.jvm-metaspace.size: 112m\ntaskmanager.memory.managed.size: 0m\n", []string{"jobmanager"}, nil, "-Xmx176m", []string{"/f/flink-jobmanager"},
		},
		"what is no size may be said": {
			"taskmanager.network.memory.buffer-debloat.enabled: true\n", []string{"jobmanager"},
			[]string{`taskmanager.network.memory.buffer-debloat.enabled: "true"`}, "-Xmx176m", []string{"/f/flink-jobmanager"},
		},
		"the command line finds it too": {
			"", []string{"flink", "run", "-d", "-m", "manager:8081", "-c", "X"}, nil, "-Xmx128m", []string{"/f/flink", "run", "-d", "-m", "127.77.1.11:8081", "-c", "X"},
		},
	} {
		in := flinkInstance(t, c.properties, c.command...)
		p, err := startFlink(t.Context(), in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config, err := os.ReadFile(filepath.Join(p.Env["FLINK_CONF_DIR"], "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range c.config {
			if !strings.Contains("\n"+string(config), "\n"+line+"\n") {
				t.Errorf("%s: the configuration has no line %q:\n%s", name, line, config)
			}
		}
		if strings.Contains(string(config), "process.size") {
			t.Errorf("%s: Flink would compute the sizes anew:\n%s", name, config)
		}
		if jvm := p.Env["JVM_ARGS"]; !strings.HasPrefix(jvm, c.jvm) || !strings.HasSuffix(jvm, "-Dx=y") {
			t.Errorf("%s: got %q, want %q", name, jvm, c.jvm)
		}
		if len(c.runs) > 2 && c.runs[2] == "" {
			c.runs[2] = p.Env["FLINK_CONF_DIR"]
		}
		if len(p.Command) < len(c.runs) || !slices.Equal(p.Command[:len(c.runs)], c.runs) {
			t.Errorf("%s: got %q, want %q", name, p.Command, c.runs)
		}
	}
}

func TestFlinkRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		properties string
		command    []string
		want       string
	}{
		"no command":              {"", nil, "it has no command"},
		"a job that is not there": {"jobmanager.rpc.address: manager\n", []string{"standalone-job", "--jars", "/nowhere/job.jar"}, "/nowhere/job.jar of --jars does not exist; build it first"},
		"another command":         {"", []string{"history-server"}, "starts only jobmanager, standalone-job, taskmanager and flink"},
		"a line that is none":     {"a b", []string{"jobmanager"}, `has the line "a b"; write NAME: VALUE`},
		"another size of memory":  {"taskmanager.memory.task.heap.size: 64m", []string{"taskmanager"}, "sizes a process by"},
		"another metaspace":       {"jobmanager.memory.jvm-metaspace.size: 256m", []string{"jobmanager"}, "to 256m, but the recipe has 112m for it; write that"},
		"no job manager":          {"", []string{"taskmanager"}, "does not say where the job manager is"},
		"too small a process":     {"jobmanager.rpc.address: manager\ntaskmanager.memory.process.size: 300m", []string{"taskmanager"}, "set it to 336m or more"},
		"a size that is none":     {"jobmanager.memory.process.size: much", []string{"jobmanager"}, "write mebibytes or gibibytes"},
	} {
		_, err := startFlink(t.Context(), flinkInstance(t, c.properties, c.command...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
