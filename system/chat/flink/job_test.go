package flink

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/contracttest"
	"loadstone/system/chat/topics"
	"loadstone/system/chat/topics/topicstest"
)

const long = 3 * time.Minute // more than anything takes that does not hang

// compiled is a directory with the job's classes and files, and how a class of it is run.
func compiled(t testing.TB) (classes, run string) {
	t.Helper()
	run = servertest.Fetched(t, "Flink", "flink-*/bin/flink-local")
	javac, err := exec.LookPath("javac")
	if err != nil {
		servertest.Missing(t, "there is no Java compiler: apt-get install openjdk-17-jdk-headless")
	}
	classes = t.TempDir()
	sources, err := filepath.Glob("src/loadstone/chat/*.java")
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(filepath.Dir(run), "..", "lib", "*")
	compile := exec.CommandContext(t.Context(), javac, append([]string{"--release", "17", "-cp", lib, "-d", classes}, sources...)...)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	for _, name := range []string{"model.bin", "fold.tsv"} {
		data, err := os.ReadFile(filepath.Join("..", "analysis", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(classes, "loadstone", "chat", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return classes, run
}

// Java takes for messages what Go does.
func TestRawRecordsAgreeWithTheContract(t *testing.T) {
	servertest.Large(t)
	classes, run := compiled(t)
	all := contracttest.Records[struct {
		Name string    `json:"name"`
		Wire string    `json:"wire"`
		Raw  *chat.Raw `json:"raw"`
	}](t, "../contract/raw.jsonl")
	var in, failed bytes.Buffer
	for _, r := range all {
		in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(r.Wire))))
		in.WriteString(r.Wire)
	}
	cmd := exec.CommandContext(t.Context(), run, "loadstone.chat.MessageCheck")
	cmd.Stdin, cmd.Stderr, cmd.Env = &in, &failed, append(os.Environ(), "FLINK_EXTRA_CLASSPATH="+classes)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) != len(all)+1 {
		t.Fatalf("it answered %d of %d records", len(lines)-1, len(all))
	}
	for i, r := range all {
		want := ""
		if r.Raw != nil {
			want = fmt.Sprintf("%d\t%s\t%s\t%s", r.Raw.Stream, r.Raw.Sender, r.Raw.ID, r.Raw.Text)
		}
		if lines[i] != want {
			t.Errorf("%s: Java has %q, want %q", r.Name, lines[i], want)
		}
	}
}

// A message costs no more in a stream in which much was said before.
func TestAHotStreamCostsNoMore(t *testing.T) {
	t.Parallel()
	classes, run := compiled(t)
	const messages, most = "40000", 5 // in one as much as in a thousand; 7 times as much with a time to live of each id
	out := countingCheck(t, classes, run, messages, "1000", messages, "1")
	used := regexp.MustCompile(`(?m)^\d+$`).FindAllString(out, -1) // among what Flink logs
	if len(used) != 2 {
		t.Fatalf("it says %q", used)
	}
	spread, _ := strconv.ParseFloat(used[0], 64)
	hot, _ := strconv.ParseFloat(used[1], 64)
	t.Logf("%s messages took %.2f s of CPU in a thousand streams, and %.2f s in one", messages, spread/1e9, hot/1e9)
	if hot > most*spread {
		t.Errorf("in one stream they took %.1f times as much", hot/spread)
	}
}

// A message that comes again counts once, for as long as it is known; it is forgotten after twice that.
func TestMessagesAreForgotten(t *testing.T) {
	t.Parallel()
	classes, run := compiled(t)
	const seconds = "12" // known for 4 to 8
	told := regexp.MustCompile(`(?m)"stream":0,.*"next":(\d+)`).FindAllStringSubmatch(countingCheck(t, classes, run, seconds), -1)
	if len(told) != 2 || told[0][1] != "1" || told[1][1] != "2" {
		t.Errorf("it is told %q, want 1 and then 2", told)
	}
}

// countingCheck returns what CountingCheck prints.
func countingCheck(t *testing.T, classes, run string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), run, append([]string{"loadstone.chat.CountingCheck"}, args...)...)
	var failed bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), "FLINK_EXTRA_CLASSPATH="+classes, "JVM_ARGS=-Xmx512m -Djava.io.tmpdir="+t.TempDir()), &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	return string(out)
}

// totals are those of a stream as the job tells them.
type totals struct {
	Stream int64             `json:"stream"`
	Type   string            `json:"type"`
	Next   uint64            `json:"next"`
	Labels map[string]uint64 `json:"labels"`
}

// The job counts each message once, as Go would, whichever way it goes, and also where all that runs it was killed and is
// started again.
func TestTheJobCountsEachMessageOnce(t *testing.T) {
	servertest.Large(t)
	classes, run := compiled(t)
	for name, flags := range map[string][]string{"classified first": nil, "keyed first": {"--original"}} {
		t.Run(name, func(t *testing.T) {
			broker := servertest.Kafka(t)
			want := map[int64]analysis.Counts{}
			fill(t, broker.Addr, want)
			dir := t.TempDir()
			job := servertest.New(t, servertest.Program{
				Command: append([]string{
					run, "loadstone.chat.Analysis", "--kafka", broker.Addr, "--parallelism", "2", "--checkpoint-millis", "500", "--checkpoints", "file://" + dir + "/checkpoints", "--weight-micros", "100",
				}, flags...),
				Env: append(os.Environ(), "FLINK_EXTRA_CLASSPATH="+classes, "JVM_ARGS=-Xmx512m -Djava.io.tmpdir="+dir),
				Dir: dir, Log: filepath.Join(dir, "log"),
			})
			counted := func() {
				t.Helper()
				got := map[int64]totals{}
				for deadline := time.Now().Add(long); !equal(got, want); {
					if time.Now().After(deadline) {
						log, _ := os.ReadFile(filepath.Join(dir, "log"))
						t.Fatalf("got %v, want %v\n%.4000s", got, want, log)
					}
					for _, r := range topicstest.Read(t, broker.Addr, topics.Analysis, 1) {
						var one totals
						if err := json.Unmarshal(r.Value, &one); err != nil || one.Type != "totals" {
							t.Fatalf("a result is %s, %v", r.Value, err)
						}
						got[one.Stream] = one
					}
				}
			}
			job.Start()
			counted()
			for range 2 {
				checkpoint(t, dir)
				job.Kill()
				fill(t, broker.Addr, want)
				job.Start()
				counted()
			}
		})
	}
}

// checkpoint waits until the job has another one.
func checkpoint(t *testing.T, dir string) {
	t.Helper()
	all := func() map[string]bool {
		found, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*", "*", "chk-*", "_metadata"))
		if err != nil {
			t.Fatal(err)
		}
		is := map[string]bool{}
		for _, path := range found {
			is[path] = true
		}
		return is
	}
	before := all()
	for deadline := time.Now().Add(long); ; time.Sleep(10 * time.Millisecond) {
		for path := range all() {
			if !before[path] {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no other checkpoint than %v", before)
		}
	}
}

func equal(got map[int64]totals, want map[int64]analysis.Counts) bool {
	for stream, counts := range want {
		of := got[stream]
		if of.Next != counts.Sum() {
			return false
		}
		for l, n := range counts {
			if of.Labels[analysis.Label(l).String()] != n {
				return false
			}
		}
	}
	return true
}

// fill has things said in two streams, some of them twice and some once more of a call before, with what is no message among
// them, and counts what they are.
func fill(t *testing.T, broker string, counted map[int64]analysis.Counts) {
	t.Helper()
	c := topics.DefaultConfig()
	c.Brokers = []string{broker}
	client, err := topics.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	from := 0
	for _, counts := range counted {
		from += int(counts.Sum())
	}
	text := randomTexts(uint64(7 + from))
	const count, again = 400, 100
	done := make(chan error, 2*count)
	sent := 0
	say := func(r chat.Raw) {
		if err := client.Say(&r, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	for i := max(0, from-again); i < from+count; i++ {
		r := chat.Raw{Stream: int64(1 + i%2), Message: chat.Message{At: 1_800_000_000_000, Sender: fmt.Sprint("guest-", i%13), Name: "Noor", ID: fmt.Sprint(i), Text: "said: " + strings.ToValidUTF8(strings.Map(printable, text()), "")}}
		if _, err := chat.ParseRaw(r.Append(nil)); err != nil {
			r.Text = "what is this song called?"
		}
		if i >= from {
			counts := counted[r.Stream]
			counts[analysis.Classify(r.Text)]++
			counted[r.Stream] = counts
		}
		say(r)
		if i%5 == 0 {
			say(r) // its sender had no ack
		}
	}
	for range sent {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	topicstest.Write(t, broker, topics.Raw, []byte("no message"))
	topicstest.Write(t, broker, topics.Raw, []byte(`{"stream":1}`))
}

// printable leaves out what no message has.
func printable(c rune) rune {
	if c < 0x20 || c >= 0x7f && c < 0xa0 {
		return -1
	}
	return c
}
