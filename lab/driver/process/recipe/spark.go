package recipe

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sparkPort is a master's.
const sparkPort = 7077

// Classes of Spark's own processes.
const (
	sparkMaster = "org.apache.spark.deploy.master.Master"
	sparkWorker = "org.apache.spark.deploy.worker.Worker"
)

// sparkConnector begins the coordinates of the one package that is in the distribution.
const sparkConnector = "org.apache.spark:spark-sql-kafka-0-10_"

// startSpark has the official image's contract for commands: spark-class with the class of a master or
// a worker, and spark-submit, in /opt/spark/bin or without a directory. A driver runs where it was submitted
// from, which is its service.
//
// Each is at its instance's own address. Of --packages there is the connector with Kafka; a library that is a
// file can be mounted, and named by --jars.
func startSpark(_ context.Context, in *Instance) (*Process, error) {
	given := in.Service.Arguments
	name := ""
	if len(given) > 0 {
		name = path.Base(given[0])
	}
	if !slices.Contains([]string{"spark-class", "spark-submit"}, name) {
		return nil, fmt.Errorf("its command is %q, but the recipe starts only spark-class and spark-submit; write one of those with its arguments, or set x-process to the program to start", given)
	}
	args := in.pathFlags(given[1:])
	for i, arg := range args {
		if rest, ok := strings.CutPrefix(arg, "spark://"); ok {
			args[i] = "spark://" + in.at(rest)
		}
	}
	temporary, err := in.dataDir("/tmp")
	if err != nil {
		return nil, err
	}
	switch {
	case name == "spark-submit":
		if args, err = sparkSubmit(in, args); err != nil {
			return nil, err
		}
	case len(args) > 0 && args[0] == sparkMaster:
		args = append(args, "--host", in.Host) // what comes last counts
	case len(args) > 0 && args[0] == sparkWorker:
		args = slices.Insert(args, 1, "--host", in.Host, "--work-dir", filepath.Join(temporary, "work"))
	default:
		return nil, fmt.Errorf("its command starts the class %q, but the recipe starts only %s and %s; set x-process to the program to start", args, sparkMaster, sparkWorker)
	}
	env := map[string]string{
		"SPARK_LOCAL_IP": in.Host, "SPARK_LOCAL_DIRS": temporary, "TMPDIR": temporary,
		"JDK_JAVA_OPTIONS":        strings.TrimSpace("-Djava.io.tmpdir=" + temporary + " " + in.Service.Environment["JDK_JAVA_OPTIONS"]),
		"PYTHONDONTWRITEBYTECODE": "1", // a mounted job's directory is the user's
	}
	return &Process{Command: append([]string{in.Files[name]}, args...), Env: env}, nil
}

// sparkSubmit are the arguments of a driver, which its executors find.
func sparkSubmit(in *Instance, args []string) ([]string, error) {
	if i := slices.Index(args, "--packages"); i >= 0 && i+1 < len(args) {
		for p := range strings.SplitSeq(args[i+1], ",") {
			if !strings.HasPrefix(p, sparkConnector) {
				return nil, fmt.Errorf("the recipe has no package %q, only Spark's connector with Kafka; mount its files and name them by --jars", p)
			}
		}
		args = slices.Delete(args, i, i+2)
	}
	return append([]string{"--conf", "spark.driver.host=" + in.Host, "--conf", "spark.driver.bindAddress=" + in.Host}, args...), nil
}
