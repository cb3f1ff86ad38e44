package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/experiment"
)

// Every command in the documents runs: each block marked sh is a script, run
// in a directory of its own with the program on the PATH. A make target is
// checked to be there and not run: the tests are one of them.
func TestDocumentsRun(t *testing.T) {
	blocks := 0
	for _, doc := range []string{"README.md", "docs/DESIGN.md", "docs/experiments.md", "docs/load.md", "docs/compare.md", "docs/predict.md", "docs/scaling.md", "docs/selftest.md",
		"docs/patterns/refresh-ahead.md", "docs/patterns/do-once.md", "docs/patterns/pool.md", "docs/patterns/scaling.md", "docs/patterns/async.md", "docs/patterns/nosql.md",
		"system/results/README.md", "system/patterns/README.md", "system/menu/README.md", "system/feed/README.md", "system/chat/README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join("../..", doc))
		if err != nil {
			t.Fatal(err)
		}
		for i, script := range shellBlocks(string(text)) {
			blocks++
			if targets, ok := makeTargets(script); ok {
				checkTargets(t, doc, targets)
				continue
			}
			runScript(t, doc, i+1, script)
		}
	}
	if blocks < 4 {
		t.Errorf("only %d blocks of commands were found: is this test still looking in the right places?", blocks)
	}
}

// Every experiment and every load in the documents can be read.
func TestDocumentsHaveValidFiles(t *testing.T) {
	files := 0
	for _, doc := range []string{"README.md", "docs/experiments.md", "docs/load.md", "docs/scaling.md"} {
		text, err := os.ReadFile(filepath.Join("../..", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks(string(text), "yaml") {
			if !strings.Contains(block, "load:") {
				continue // a Compose file
			}
			files++
			_, err := experiment.ParseLoad(doc, []byte(block))
			if strings.Contains(block, "variants:") || strings.Contains(block, "sweep:") {
				_, err = experiment.Parse(doc, []byte(block))
			}
			if err != nil {
				t.Errorf("%s: %v in:\n%s", doc, err, block)
			}
		}
	}
	if files < 2 {
		t.Errorf("only %d files were found: is this test still looking in the right places?", files)
	}
}

func shellBlocks(text string) []string { return blocks(text, "sh") }

// blocks returns the blocks of a document that are marked as language.
func blocks(text, language string) []string {
	var blocks []string
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "\n```"+language+"\n")
		if !ok {
			return blocks
		}
		block, next, ok := strings.Cut(after, "\n```")
		if !ok {
			return blocks
		}
		blocks, rest = append(blocks, block), next
	}
}

// makeTargets returns the targets of a block that is nothing but make.
func makeTargets(script string) (targets []string, ok bool) {
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] != "make" {
			return nil, false
		}
		targets = append(targets, fields[1:]...)
	}
	return targets, true
}

func checkTargets(t *testing.T, doc string, targets []string) {
	t.Helper()
	for _, target := range targets {
		if out, err := exec.Command("make", "-C", "../..", "-n", target).CombinedOutput(); err != nil {
			t.Errorf("%s: make %s: %v\n%s", doc, target, err, out)
		}
	}
}

func runScript(t *testing.T, doc string, n int, script string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // servers with users of their own get to their volumes
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The documents speak of files of this repository by their paths in it.
	for _, name := range []string{"system", "docs"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if doc == "docs/compare.md" || doc == "docs/predict.md" { // they speak of runs that the reader has
		plantRuns(t, dir)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// Whether an objective is met depends on the machine, and so does whether a book is read in
	// time; that the commands run does not.
	script = responseTimes.ReplaceAllString(script, "p(95)<60000")
	script = strings.ReplaceAll(script, "--book-delay 200ms", "--book-delay 200ms --book-timeout 30s")
	if out, err := runGuarded(ctx, t, dir, script); err != nil {
		t.Errorf("%s, block %d: %v\n%s\n%s", doc, n, err, script, out)
	}
}

var responseTimes = regexp.MustCompile(`p\(95\)<\d+`)

// runGuarded runs a script in dir. What is cut short, by ctx or by the end of this process
// (go test ends it when its own time is over), leaves no programs: those of a script are in
// sessions and process groups of their own, and a guardian ends them all by their mark.
func runGuarded(ctx context.Context, t *testing.T, dir, script string) (said string, err error) {
	t.Helper()
	guard, err := guardian.Start(ctx, guardian.Config{Argv: []string{program, internalName, guardianName}, LogFile: filepath.Join(t.TempDir(), "guardian.log")})
	if err != nil {
		return "", err
	}
	mark := fmt.Sprintf("loadstone-test-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(dir))+"-"+filepath.Base(dir))
	if err := guard.Mark(mark); err != nil {
		return "", errors.Join(err, guard.Leave())
	}
	cmd := exec.CommandContext(ctx, "bash", "-emc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"),
		guardian.MarkVariable+"="+mark)
	cmd.Cancel = guard.Leave
	// A server of a script that failed before it ended that one holds the pipe open.
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), errors.Join(err, guard.Leave())
	}
	return string(out), guard.Done()
}

// A script that fails before it has ended its server ends all the same, and so does that.
func TestAScriptThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := runGuarded(t.Context(), t, dir, "sleep 1000 &\necho $! >job\necho said\nfalse\nkill %1"); err == nil || !strings.HasSuffix(out, "said\n") {
		t.Errorf("got %q, %v, want what it said and that it failed", out, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "job"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its server ends", func() bool { return gone(pid) })
}

// A script that is cut short leaves nothing of what it started, in whatever session.
func TestAScriptThatIsCutShortLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := runGuarded(ctx, t, dir, "echo $$ >shell\nsleep 1000 &\necho $! >job\nsetsid sh -c 'echo $$ >session; exec sleep 1000' &\nwait")
		ended <- err
	}()
	var all []guardian.Process
	for _, name := range []string{"shell", "job", "session"} {
		eventually(t, "the script starts its "+name, func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.HasSuffix(string(text), "\n") {
				return false
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			p, err := guardian.Identify("/proc", pid)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
			return true
		})
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	for _, p := range all {
		if p.Alive("/proc") {
			t.Errorf("process %d still runs", p.PID)
		}
	}
}
