package resultstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Build is the signature of a builder.
type Build func(ctx context.Context, path string, source dataset.Source[results.Student], progress dataset.Progress) error

// Builder tests a builder: that it makes a file wholly or not at all. The suite
// starts the test binary again for a builder that it kills, so it must be called
// from a test function directly, and describe must read back what a built file
// holds.
func Builder(t *testing.T, build Build, describe func(path string) (dataset.Meta, error)) {
	t.Helper()
	if path := os.Getenv(killedTarget); path != "" { //nolint:forbidigo // only tests call this, and the child is one
		t.Fatal(build(t.Context(), path, Generator(t, 1, results.MaxID), nil))
	}
	t.Parallel()
	suite := builderSuite{build, describe}
	t.Run("replaces", suite.replaces)
	for name, test := range badSources(t) {
		t.Run("changes nothing on "+name, func(t *testing.T) { suite.changesNothing(t, test) })
	}
	t.Run("leaves nothing when cancelled", suite.cancelled)
	top := t.Name()
	t.Run("survives being killed", func(t *testing.T) { suite.killed(t, top) })
}

type builderSuite struct {
	build    Build
	describe func(path string) (dataset.Meta, error)
}

func (s builderSuite) mustBuild(t *testing.T, path string, source dataset.Source[results.Student]) {
	t.Helper()
	if err := s.build(t.Context(), path, source, nil); err != nil {
		t.Fatal(err)
	}
}

func (s builderSuite) checkHolds(t *testing.T, path string, want dataset.Meta) {
	t.Helper()
	if got, err := s.describe(path); err != nil || got != want {
		t.Errorf("%s: got %+v, %v, want %+v", path, got, err, want)
	}
}

// checkAlone fails if anything but the file lies in its directory.
func checkAlone(t *testing.T, path string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name.Name() != filepath.Base(path) {
			t.Errorf("left behind: %s", name.Name())
		}
	}
}

func (s builderSuite) replaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with space, 100%?#data")
	for seed := range uint64(2) {
		source := Generator(t, seed, 5000)
		var told []int64
		err := s.build(t.Context(), path, source, func(done, total int64) {
			if total != 5000 {
				t.Errorf("progress: got a total of %d, want 5000", total)
			}
			told = append(told, done)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(told), "[4096 5000]"; got != want {
			t.Errorf("progress: got %s, want %s", got, want)
		}
		s.checkHolds(t, path, source.Meta())
		checkAlone(t, path)
	}
}

type badSource struct {
	source dataset.Source[results.Student]
	want   string // in the error
}

func badSources(t *testing.T) map[string]badSource {
	t.Helper()
	good := Generator(t, 1, 4)
	students := []results.Student{good.Student(1), good.Student(2), good.Student(3), good.Student(4)}
	three := dataset.Meta{Origin: "test", Fingerprint: "test", Count: 3}
	long := dataset.Meta{Origin: strings.Repeat("x", dataset.MaxOriginBytes+1), Count: 3}
	return map[string]badSource{
		"a duplicate id":     {List{three, append(students[:2:2], students[0]), nil}, "each id must be given once"},
		"an invalid student": {List{three, append(students[:2:2], results.Student{ID: 77}), nil}, "student with id 77 is not valid"},
		"a broken source":    {List{three, students[:1], errors.New("the tape broke")}, "the tape broke"},
		"too few students":   {List{three, students[:2], nil}, "2 records instead of 3"},
		"too many students":  {List{three, students, nil}, "4 records instead of 3"},
		"no students":        {List{}, "there must be records"},
		"too long an origin": {List{long, students[:3], nil}, "513 bytes of origin"},
	}
}

func (s builderSuite) changesNothing(t *testing.T, test badSource) {
	t.Helper()
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	s.mustBuild(t, path, Generator(t, 2, 10))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = s.build(t.Context(), path, test.source, nil)
	if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %q and the path", err, test.want)
	}
	checkAlone(t, path)
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old file is not as it was, %v", err)
	}
}

func (s builderSuite) cancelled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.build(ctx, path, Generator(t, 1, results.MaxID), func(done, _ int64) {
		if done > 10_000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	checkAlone(t, path)
	if _, err := s.describe(path); !errors.Is(err, results.ErrMissing) {
		t.Errorf("describe: got %v, want ErrMissing", err)
	}
}

// killedTarget names the variable that makes the test binary the victim.
const killedTarget = "RESULTSTEST_KILLED_TARGET"

// killed starts a builder in a process of its own, kills it once it has written
// something, and builds again over what it left.
func (s builderSuite) killed(t *testing.T, top string) {
	t.Helper()
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	old := Generator(t, 2, 10)
	s.mustBuild(t, path, old)

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program, "-test.run=^"+top+"$")
	child.Env = append(child.Environ(), killedTarget+"="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	waitForSize(t, path+atomicfile.Suffix, 64<<10)
	if err := s.build(t.Context(), path, old, nil); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("beside another builder: got %v, want ErrBusy", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}

	s.checkHolds(t, path, old.Meta())
	if meta, err := s.describe(path + atomicfile.Suffix); err == nil {
		t.Errorf("the half-written file passes for whole: %+v", meta)
	}
	next := Generator(t, 3, 20)
	s.mustBuild(t, path, next)
	s.checkHolds(t, path, next.Meta())
	checkAlone(t, path)
}

func waitForSize(t *testing.T, path string, size int64) {
	t.Helper()
	// Long enough for a busy machine to start a process.
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if info, err := os.Stat(path); err == nil && info.Size() >= size {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not reach %d bytes", path, size)
		}
		<-ticker.C
	}
}
