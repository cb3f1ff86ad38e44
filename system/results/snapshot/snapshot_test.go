package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/block/follow"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(tb testing.TB, path string, source dataset.Source[results.Student]) {
	tb.Helper()
	if err := Build(tb.Context(), path, source, nil); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, path string) *Follower {
	tb.Helper()
	snapshot, err := Follow(path, DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return snapshot
}

func TestBuilder(t *testing.T) { resultstest.Builder(t, Build, Describe) }

func TestStores(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T, source dataset.Source[results.Student]) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "results.snapshot")
		build(t, path, source)
		return path
	}
	t.Run("snapshot", func(t *testing.T) {
		t.Parallel()
		resultstest.Store(t, func(t *testing.T, source dataset.Source[results.Student]) results.Store {
			t.Helper()
			return open(t, file(t, source))
		})
	})
	t.Run("follower", func(t *testing.T) {
		t.Parallel()
		resultstest.Store(t, func(t *testing.T, source dataset.Source[results.Student]) results.Store {
			t.Helper()
			follower, err := Follow(file(t, source), DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			return follower
		})
	})
}

func TestSameSourceGivesSameBytes(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	var files [2][]byte
	for i := range files {
		path := filepath.Join(directory, fmt.Sprint(i))
		build(t, path, resultstest.Generator(t, 5, 3000))
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two builds of one source differ")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 100))
	snapshot := open(t, path)
	for name, id := range map[string]int64{"hit": 7, "miss": 1000} {
		got := testing.AllocsPerRun(100, func() {
			if _, err := snapshot.Lookup(context.Background(), id); err != nil && id == 7 {
				t.Error(err)
			}
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

// check does what Follow does to a file's bytes, without the file.
func check(data []byte) error {
	h, err := decodeHeader(data, int64(len(data)))
	if err != nil {
		return err
	}
	return newContents(data, h).verify()
}

// TestEveryChangeIsRefused changes one byte of a file at a time, cuts it at
// every length and lengthens it. One in a hundred goes through a real file.
func TestEveryChangeIsRefused(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "whole")
	build(t, path, resultstest.Generator(t, 1, 3))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	refused := func(what string, data []byte) {
		t.Helper()
		if err := check(data); !errors.Is(err, results.ErrCorrupt) && !errors.Is(err, results.ErrVersion) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
		if tries++; tries%100 != 0 && len(data) != len(whole)-1 {
			return
		}
		bad := filepath.Join(directory, "bad")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Follow(bad, DefaultConfig())
		if !errors.Is(err, results.ErrCorrupt) && !errors.Is(err, results.ErrVersion) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		} else if !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "publish it again") {
			t.Errorf("%s: got %q, want the path and what to do", what, err)
		}
	}
	if err := check(whole); err != nil {
		t.Fatalf("the unchanged file: %v", err)
	}
	data := bytes.Clone(whole)
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			data[i] ^= flip
			refused(fmt.Sprintf("byte %d xor %#x", i, flip), data)
			data[i] ^= flip
		}
	}
	for length := range whole {
		refused(fmt.Sprintf("cut to %d bytes", length), whole[:length])
	}
	refused("one byte longer", append(bytes.Clone(whole), 0))
	refused("a page longer", append(bytes.Clone(whole), make([]byte, 4096)...))
	refused("twice", append(bytes.Clone(whole), whole...))
	refused("zeros", make([]byte, len(whole)))
	refused("text", []byte(strings.Repeat("id,name\n", 1000)))
}

func TestMissingFileAndDirectoryAreTold(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	absent := filepath.Join(directory, "absent")
	for name, try := range map[string]func(string) error{
		"describe": func(path string) error { _, err := Describe(path); return err },
		"follow":   func(path string) error { _, err := Follow(path, DefaultConfig()); return err },
	} {
		if err := try(absent); !errors.Is(err, results.ErrMissing) || !strings.Contains(err.Error(), absent) {
			t.Errorf("%s: got %v, want ErrMissing and the path", name, err)
		}
		if err := try(directory); !errors.Is(err, results.ErrVersion) {
			t.Errorf("%s of a directory: got %v, want ErrVersion", name, err)
		}
	}
}

func TestOtherVersionIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 3))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(data[8:], Version+1)
	fixSums(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Follow(path, DefaultConfig())
	if !errors.Is(err, results.ErrVersion) || !strings.Contains(err.Error(), "version 3, this program reads versions 1 to 2") {
		t.Errorf("got %v, want ErrVersion with both versions", err)
	}
}

// fixSums makes both checksums right, so that the checks behind them are reached.
func fixSums(data []byte) {
	if len(data) < headerSize {
		return
	}
	binary.LittleEndian.PutUint32(data[48:], crc32.Checksum(data[headerSize:], castagnoli))
	binary.LittleEndian.PutUint32(data[headerSumOffset:], crc32.Checksum(data[:headerSumOffset], castagnoli))
}

// TestCheckedBehindTheChecksums spoils a file in ways that the checksums, made
// right again, do not show.
func TestCheckedBehindTheChecksums(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := filepath.Join(directory, "whole")
	build(t, path, resultstest.Generator(t, 1, 3))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := decodeHeader(whole, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	index := h.indexStart()
	first := index // of the occupied slots
	for binary.LittleEndian.Uint64(whole[first:]) == 0 {
		first += slotSize
	}
	le := binary.LittleEndian
	for name, test := range map[string]struct {
		spoil func(data []byte)
		want  string
	}{
		"body":             {func(d []byte) { d[headerSize+recordHeader+20] ^= 1 }, "does not match its tag"},
		"body length":      {func(d []byte) { le.PutUint32(d[headerSize+16:], 1<<31) }, "more than are left"},
		"shorter body":     {func(d []byte) { d[headerSize+16]-- }, "does not match its tag"},
		"code length":      {func(d []byte) { le.PutUint16(d[headerSize+20:], 0xffff) }, "more than are left"},
		"id":               {func(d []byte) { d[headerSize]++ }, "is not in the index"},
		"lost slot":        {func(d []byte) { le.PutUint64(d[first:], 0) }, "the index has 2 entries for 3 students"},
		"wrong slot":       {func(d []byte) { le.PutUint64(d[first:], 1<<39) }, "is not in the index"},
		"full index":       {func(d []byte) { copy(d[index:], bytes.Repeat([]byte{0xff}, 4*slotSize)) }, "the index has 4 entries"},
		"count":            {func(d []byte) { d[24]-- }, "entries for 2 students"},
		"huge count":       {func(d []byte) { le.PutUint64(d[24:], 1<<63) }, "contradicts itself"},
		"records end":      {func(d []byte) { le.PutUint64(d[32:], 1<<63) }, "contradicts itself"},
		"earlier end":      {func(d []byte) { le.PutUint64(d[32:], uint64(h.recordsEnd-8)) }, "contradicts itself"},
		"slots":            {func(d []byte) { le.PutUint64(d[40:], 1<<40) }, "contradicts itself"},
		"length of a text": {func(d []byte) { le.PutUint16(d[52:], 600) }, "contradicts itself"},
	} {
		data := bytes.Clone(whole)
		test.spoil(data)
		fixSums(data)
		bad := filepath.Join(directory, "bad")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Follow(bad, DefaultConfig()); !errors.Is(err, results.ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want ErrCorrupt with %q", name, err, test.want)
		}
	}
}

// FuzzOpen opens arbitrary files, as they are and with their checksums made
// right. It must not crash, and what it accepts must be consistent.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "results.snapshot")
	build(f, path, resultstest.Generator(f, 1, 3))
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, 0, byte(0), false)
	f.Add(whole, headerSize+16, byte(0x80), true)
	f.Add(whole, len(whole)-8, byte(0x01), true)
	f.Add(whole[:headerSize], 24, byte(3), true)
	f.Add([]byte{}, 0, byte(0), false)
	f.Fuzz(func(t *testing.T, data []byte, at int, flip byte, fix bool) {
		data = bytes.Clone(data)
		if at >= 0 && at < len(data) {
			data[at] ^= flip
		}
		if fix {
			fixSums(data)
		}
		path := filepath.Join(t.TempDir(), "fuzzed")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		snapshot, err := Follow(path, DefaultConfig())
		if err != nil {
			return
		}
		if !fix && !bytes.Equal(data, whole) {
			t.Fatal("a changed file was accepted")
		}
		for id := range int64(10) {
			page, err := snapshot.Lookup(t.Context(), id)
			if err == nil && results.Tag(page.Body) != page.Tag {
				t.Errorf("id %d: the body does not match its tag", id)
			}
			if err != nil && !errors.Is(err, results.ErrNotFound) {
				t.Errorf("id %d: %v", id, err)
			}
			runtime.KeepAlive(page)
		}
	})
}

// truncatedChild makes the test binary the server of TestServedFileIsSpoiled: a bus error
// ends a process.
const truncatedChild = "SNAPSHOT_TRUNCATED_CHILD"

// Whatever happens to a file while it is served, every answer stays as it was proven.
func TestServedFileIsSpoiled(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 1, 1000)
	if os.Getenv(truncatedChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServedFileIsSpoiled$")
		child.Env = append(child.Environ(), truncatedChild+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("the server ended: %v\n%.2000s", err, out)
		}
		return
	}
	for name, spoil := range map[string]func(path string) error{
		"cut short":   func(path string) error { return os.Truncate(path, 0) },
		"overwritten": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600) },
		"deleted":     os.Remove,
	} {
		path := filepath.Join(t.TempDir(), "results.snapshot")
		build(t, path, source)
		follower, err := Follow(path, DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		follower.files.Look()
		for id := int64(1); id <= 1000; id++ {
			page, err := follower.Lookup(t.Context(), id)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			student := source.Student(id)
			resultstest.CheckPage(t, page, &student)
		}
	}
}

// What is at the path is no file: it is refused at once.
func TestPipeIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 10))
	var refused []error
	follower, err := Follow(path, Config{Interval: time.Second, Events: follow.Events{Refused: func(err error) { refused = append(refused, err) }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{})
	go func() { defer close(looked); follower.files.Look(); follower.files.Look() }()
	select {
	case <-looked:
	case <-time.After(30 * time.Second):
		t.Fatal("the follower waits for somebody to write into the pipe")
	}
	if len(refused) != 1 || !errors.Is(refused[0], results.ErrVersion) || !strings.Contains(refused[0].Error(), "it is not a file") {
		t.Errorf("got %v, want one refusal: it is not a file", refused)
	}
	if _, err := follower.Lookup(t.Context(), 7); err != nil {
		t.Errorf("the old file: %v", err)
	}
}

// Not parallel: it watches the memory of the process.
func TestCopiesAreReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 5000))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	before := virtualBytes(t)
	const times = 300
	for range times {
		open(t, path)
		runtime.GC()
	}
	waitForCopies(t, path, 0)
	if grown, all := virtualBytes(t)-before, times*info.Size(); grown > all/2 {
		t.Errorf("after %d copies of %d bytes the process has grown by %d", times, info.Size(), grown)
	}
}

// virtualBytes is the size of the process's mappings.
func virtualBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func TestHalfWrittenFileIsNeverServed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 10))
	// What a builder holds that was killed just before the header: all but that.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[:headerSize])
	if err := os.WriteFile(path+atomicfile.Suffix, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(path+atomicfile.Suffix, DefaultConfig()); !errors.Is(err, results.ErrVersion) ||
		!strings.Contains(err.Error(), "never finished") {
		t.Errorf("got %v, want that it was never finished", err)
	}
}

func TestPagesOutliveTheStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	source := resultstest.Generator(t, 1, 1000)
	build(t, path, source)
	snapshot := open(t, path)
	page, err := snapshot.Lookup(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(snapshot.Close(), snapshot.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Lookup(t.Context(), 7); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("after close: got %v, want ErrUnavailable", err)
	}
	for range 5 {
		runtime.GC()
	}
	if got := copies(t, path); got != 1 {
		t.Errorf("with a page in use: got %d copies, want 1", got)
	}
	student := source.Student(7)
	resultstest.CheckPage(t, page, &student)
	// From here on nothing refers to the page.
	waitForCopies(t, path, 0)
}

// copies counts what is held of the file and of its deleted predecessors: each copy holds
// its file open.
func copies(t *testing.T, path string) (count int) {
	t.Helper()
	const open = "/proc/self/fd"
	entries, err := os.ReadDir(open)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(open, entry.Name())); err == nil && strings.HasPrefix(target, path) {
			count++
		}
	}
	return count
}

// waitForCopies collects garbage until no more than want copies are left.
func waitForCopies(t *testing.T, path string, want int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for copies(t, path) > want {
		if time.Now().After(deadline) {
			t.Fatalf("got %d copies, want %d", copies(t, path), want)
		}
		runtime.GC()
		runtime.Gosched()
	}
}
