package k6

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays k6 when this variable names what it is to do.
const roleVariable = "LOADSTONE_TEST_K6"

// recorded is what k6 v1.8.1 wrote for testdata/tiny.js, without most of the lines
// that do not matter, with BASE_URL and TARGET set to the server of TestRealK6, which
// runs the same with the program itself:
//
//	k6 run --quiet --no-usage-report --no-color --address "" --out json=recorded.jsonl tiny.js
//
//go:embed testdata/recorded.jsonl
var recorded []byte

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play is a k6 that does as role says, in words: "replay", "exit 99", "say oh".
func play(role string) int {
	out := os.NewFile(3, "points")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	for command := range strings.SplitSeq(role, ";") {
		word, rest, _ := strings.Cut(strings.TrimSpace(command), " ")
		switch word {
		case "replay":
			_, _ = out.Write(recorded)
		case "half":
			_, _ = out.Write(recorded[:len(recorded)*2/3])
		case "garbage":
			_, _ = fmt.Fprintf(out, "nonsense\n{}\n{\"metric\":\"http_reqs\n%s\n", strings.Repeat("x", 2*longestLine))
		case "seconds": // so many, of ten requests each
			n, _ := strconv.Atoi(rest)
			for i := range 10 * n {
				_, _ = out.Write(requestAt(time.Unix(1000, 0).Add(time.Duration(i)*100*time.Millisecond), 5))
			}
		case "say":
			_, _ = fmt.Fprintln(os.Stderr, rest)
		case "print":
			fmt.Println(rest, os.Getenv("BASE_URL"), os.Getenv("TARGET"), os.Getenv("MINE"))
		case "child": // that outlives us, and holds our outputs
			child := exec.Command("sleep", "300") // longer than anybody waits for its end
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			_ = child.Start()
			fmt.Println("child", child.Process.Pid)
		case "interrupted":
			<-signals
		case "hang":
			signal.Ignore(syscall.SIGINT)
			time.Sleep(time.Hour)
		case "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Hour)
		case "exit":
			n, _ := strconv.Atoi(rest)
			return n
		}
	}
	return 0
}

// requestAt is the line of a request that ended at the time and took ms.
func requestAt(end time.Time, ms float64) []byte {
	return fmt.Appendf(nil, `{"metric":"http_req_duration","type":"Point","data":{"time":%q,"value":%g,"tags":{"name":"get","scenario":"s","status":"200"}}}`+"\n",
		end.Format(time.RFC3339Nano), ms)
}

// playing is a configuration whose k6 plays a role.
func playing(tb testing.TB, role string) (Config, *bytes.Buffer) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	var log bytes.Buffer
	return Config{Binary: self, Script: "script.js", Env: map[string]string{roleVariable: role}, Log: &log}, &log
}
