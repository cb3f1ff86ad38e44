package recipe

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sparkInstance is one whose command is args, with a master at 127.77.1.11.
func sparkInstance(t *testing.T, args ...string) *Instance {
	t.Helper()
	in := testInstance(t)
	in.Service.Arguments = args
	in.Host, in.Hosts = "127.77.1.12", map[string][]string{"master": {"127.77.1.11"}}
	in.Files = map[string]string{"spark-class": "/s/spark-class", "spark-submit": "/s/spark-submit"}
	return in
}

func TestSpark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, want []string }{
		"a master is at its own address": {
			[]string{"/opt/spark/bin/spark-class", sparkMaster, "--host", "0.0.0.0"},
			[]string{"/s/spark-class", sparkMaster, "--host", "0.0.0.0", "--host", "127.77.1.12"},
		},
		"a worker finds it": {
			[]string{"spark-class", sparkWorker, "--cores", "1", "spark://master:7077"},
			[]string{"/s/spark-class", sparkWorker, "--host", "127.77.1.12", "--work-dir", "DIR/root/tmp/work", "--cores", "1", "spark://127.77.1.11:7077"},
		},
		"a driver finds it, and is found": {
			[]string{"spark-submit", "--master", "spark://master:7077", "--packages", sparkConnector + "2.12:3.5.7", "/job/job.py", "--x"},
			[]string{"/s/spark-submit", "--conf", "spark.driver.host=127.77.1.12", "--conf", "spark.driver.bindAddress=127.77.1.12", "--master", "spark://127.77.1.11:7077", "DIR/root/job/job.py", "--x"},
		},
	} {
		in := sparkInstance(t, c.args...)
		p, err := startSpark(t.Context(), in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range c.want {
			c.want[i] = strings.Replace(c.want[i], "DIR", in.Dir, 1)
		}
		if !slices.Equal(p.Command, c.want) {
			t.Errorf("%s: got %q, want %q", name, p.Command, c.want)
		}
		if temporary := filepath.Join(in.Dir, "root", "tmp"); p.Env["TMPDIR"] != temporary || p.Env["SPARK_LOCAL_IP"] != in.Host {
			t.Errorf("%s: got %v", name, p.Env)
		}
	}
}

func TestSparkRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":      {nil, "starts only spark-class and spark-submit"},
		"another command": {[]string{"driver"}, "starts only spark-class and spark-submit"},
		"another class":   {[]string{"spark-class", "org.apache.spark.repl.Main"}, "starts only " + sparkMaster},
		"another package": {[]string{"spark-submit", "--packages", "com.example:x:1", "/job.py"}, "has no package \"com.example:x:1\""},
	} {
		_, err := startSpark(t.Context(), sparkInstance(t, c.args...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
