package recordfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(tb testing.TB, path string, source dataset.Source[menu.Menu]) {
	tb.Helper()
	if err := Build(tb.Context(), path, source, nil, nil); err != nil {
		tb.Fatal(err)
	}
}

func mustOpen(tb testing.TB, path string) *Follower {
	tb.Helper()
	file, err := Follow(path, DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// menus are all that a file holds, in the order in which they were put in.
type menus struct{ *Follower }

func (m menus) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		errEnough := errors.New("enough")
		err := m.files.Current().each(ctx, func(_ int64, r record, body []byte) error {
			parsed, err := menu.ParseStored(r.id(), body)
			if err == nil && !yield(parsed, nil) {
				err = errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(menu.Menu{}, err)
		}
	}
}

// built is a file of made-up menus, and its bytes.
func built(tb testing.TB, seed uint64, count int64) (path string, whole []byte) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "menus.record")
	build(tb, path, menutest.Generator(tb, seed, count))
	whole, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return path, whole
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func TestFiller(t *testing.T) {
	t.Parallel()
	menutest.Filler(t, menutest.Fillers{Menus: 5000, Replaces: true, Place: func(t *testing.T) menutest.Filled {
		t.Helper()
		path := filepath.Join(t.TempDir(), "menus.record")
		return menutest.Filled{
			Fill: func(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
				filled, err := Fill(ctx, path, source, nil, progress)
				if _, left := os.Stat(path + atomicfile.Suffix); left == nil {
					t.Error("a building site was left behind")
				}
				return filled, err
			},
			Open: func(context.Context) (menu.Store, error) {
				file, err := Follow(path, DefaultConfig())
				if err != nil {
					return nil, err
				}
				return file, file.Verify(t.Context(), nil)
			},
		}
	}})
}

// The same source gives the same bytes, with any number of workers, and so does the file
// itself as a source. Not parallel: it sets the number of processors.
func TestSameSourceGivesSameBytes(t *testing.T) {
	const count = 2*chunkMenus + 1
	path, whole := built(t, 5, count)
	again := filepath.Join(t.TempDir(), "again")
	for what, source := range map[string]dataset.Source[menu.Menu]{"source": menutest.Generator(t, 5, count), "file": menus{mustOpen(t, path)}} {
		for _, processors := range []int{1, 3} {
			before := runtime.GOMAXPROCS(processors)
			build(t, again, source)
			runtime.GOMAXPROCS(before)
			if got, err := os.ReadFile(again); err != nil || !bytes.Equal(got, whole) {
				t.Errorf("the same %s with %d processors gave other bytes (%v)", what, processors, err)
			}
		}
	}
}

// Frames decode without this package: a raw dictionary, as browsers use it.
func TestFrames(t *testing.T) {
	t.Parallel()
	const count = 1500
	path, _ := built(t, 1, count)
	source, file := menutest.Generator(t, 1, count), mustOpen(t, path)
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, file.Dictionary().Content()))
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	frames, bodies := 0, 0
	for id := int64(1); id <= count; id++ {
		frame, err := file.Compressed(id)
		if err != nil || frame.Dictionary != file.Dictionary() {
			t.Fatal("another dictionary", err)
		}
		m := source.Menu(id)
		want := m.AppendJSON(nil)
		if got, err := decoder.DecodeAll(frame.Data, nil); err != nil || !bytes.Equal(got, want) || frame.Tag != menu.Tag(want) {
			t.Fatalf("frame of %d: got %s (%v), want %s", id, got, err, want)
		}
		frames, bodies = frames+len(frame.Data), bodies+len(want)
	}
	// Ten million are to fit 2.2 GB: 220 bytes each, of which 38 are the record's header
	// and the index.
	if frames > 180*count {
		t.Errorf("%d bytes became %d", bodies, frames)
	}
	if _, err := file.Compressed(count + 1); !errors.Is(err, menu.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// served looks all menus up: each must be its own, or said to be damaged. It reports how
// many are damaged.
func served(t *testing.T, what string, store menu.Store, source *menu.Generator) (damaged int) {
	t.Helper()
	for id := int64(1); id <= source.Meta().Count; id++ {
		page, err := store.Lookup(t.Context(), id)
		if errors.Is(err, menu.ErrCorrupt) {
			damaged++
			continue
		}
		m := source.Menu(id)
		if want := m.AppendJSON(nil); err != nil || !bytes.Equal(page.Body, want) || page.Tag != menu.Tag(want) {
			t.Fatalf("%s: menu %d is %q (%v)", what, id, page.Body, err)
		}
	}
	if _, err := store.Lookup(t.Context(), source.Meta().Count+1); !errors.Is(err, menu.ErrNotFound) && !errors.Is(err, menu.ErrCorrupt) {
		t.Fatalf("%s: a missing menu: %v", what, err)
	}
	return damaged
}

// One byte at a time is changed, in a file that is then opened, and in one that is being
// served: never another body, never "not found", and never unnoticed.
func TestEveryChangedByteIsNoticed(t *testing.T) {
	t.Parallel()
	path, whole := built(t, 1, 4)
	source, before := menutest.Generator(t, 1, 4), mustOpen(t, path)
	raw, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	change := func(at int, b byte) {
		if _, err := raw.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	records := int(before.files.Current().header.records())
	for at := range whole {
		if at > 150 && at < records && at != headerSumOffset && at%16 != 0 {
			continue // texts and zeros of the header, and the dictionary: one of 16 bytes
		}
		for _, flip := range []byte{0x01, 0xff} {
			what := fmt.Sprintf("byte %d xor %#x", at, flip)
			change(at, whole[at]^flip)
			served(t, what+" while it is served", before, source)
			file, err := Follow(path, DefaultConfig())
			if err == nil {
				if served(t, what, file, source) == 0 {
					t.Errorf("%s was not noticed", what)
				}
				err = errors.Join(file.Verify(t.Context(), nil), file.Close())
			}
			if !errors.Is(err, menu.ErrCorrupt) && !errors.Is(err, menu.ErrVersion) {
				t.Errorf("%s: got %v", what, err)
			}
			change(at, whole[at])
		}
	}
	if damaged := served(t, "unchanged", before, source); damaged != 0 || before.Verify(t.Context(), nil) != nil {
		t.Errorf("%d menus of the unchanged file are damaged", damaged)
	}
}

func TestCutAndLongerFilesAreRefused(t *testing.T) {
	t.Parallel()
	path, whole := built(t, 1, 4)
	refused := func(what string, data []byte) {
		t.Helper()
		write(t, path, data)
		_, err := Follow(path, DefaultConfig())
		if !errors.Is(err, menu.ErrCorrupt) && !errors.Is(err, menu.ErrVersion) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		} else if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "publish it again") {
			t.Errorf("%s: got %q, want the path and what to do", what, err)
		}
	}
	for length := 0; length < len(whole); length += 61 {
		refused(fmt.Sprintf("cut to %d bytes", length), whole[:length])
	}
	refused("one byte shorter", whole[:len(whole)-1])
	refused("one byte longer", append(bytes.Clone(whole), 0))
	refused("twice", append(bytes.Clone(whole), whole...))
	refused("zeros", make([]byte, len(whole)))
	refused("text", []byte(strings.Repeat("id,name\n", 1000)))
	clear(whole[:headerSize]) // what a builder leaves that was killed just before the header
	refused("never finished", whole)
}

func TestMissingFilesDirectoriesAndPipes(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	absent, pipe := filepath.Join(directory, "absent"), filepath.Join(directory, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func(string) error{
		"describe": func(path string) error { _, err := Describe(path); return err },
		"follow":   func(path string) error { _, err := Follow(path, DefaultConfig()); return err },
	} {
		for path, want := range map[string]error{absent: menu.ErrMissing, directory: menu.ErrVersion, pipe: menu.ErrVersion} {
			if err := try(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: got %v, want %v and the path", name, path, err, want)
			}
		}
	}
	if err := Build(t.Context(), directory, menutest.Generator(t, 1, 1), nil, nil); err == nil {
		t.Error("a directory was replaced")
	}
}

// fixSums makes the checksums of the header and the index right, so that the checks behind
// them are reached.
func fixSums(data []byte) {
	if len(data) < headerSize {
		return
	}
	le := binary.LittleEndian
	if end := le.Uint64(data[32:]); end <= uint64(len(data)) {
		le.PutUint32(data[48:], crc32.Checksum(data[end:], castagnoli))
	}
	le.PutUint32(data[headerSumOffset:], crc32.Checksum(data[:headerSumOffset], castagnoli))
}

// Files are spoiled in ways that the checksums, made right again, do not show.
func TestCheckedBehindTheChecksums(t *testing.T) {
	t.Parallel()
	path, whole := built(t, 1, 3)
	h, err := decodeHeader(whole, int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	le, first, at := binary.LittleEndian, h.records(), h.recordsEnd
	for le.Uint64(whole[at:]) == 0 {
		at += slotSize // the first occupied slot
	}
	end := first + record(whole[first:]).length()
	reseal := func(d []byte, id int64, tag uint64) { seal(d[first:end], id, tag, h.dictionarySum) }
	for name, test := range map[string]struct {
		spoil func(data []byte)
		want  error
		says  string
	}{
		"version":          {func(d []byte) { d[8]++ }, menu.ErrVersion, "version 2, this program reads version 1"},
		"count":            {func(d []byte) { d[24]-- }, menu.ErrCorrupt, "instead of 2"},
		"huge count":       {func(d []byte) { le.PutUint64(d[24:], 1<<63) }, menu.ErrCorrupt, "contradicts itself"},
		"records end":      {func(d []byte) { le.PutUint64(d[32:], 1<<63) }, menu.ErrCorrupt, "contradicts itself"},
		"slots":            {func(d []byte) { le.PutUint64(d[40:], 1<<40) }, menu.ErrCorrupt, "contradicts itself"},
		"dictionary":       {func(d []byte) { le.PutUint32(d[52:], 1<<31) }, menu.ErrCorrupt, "contradicts itself"},
		"length of a text": {func(d []byte) { le.PutUint16(d[60:], 600) }, menu.ErrCorrupt, "contradicts itself"},
		"lost slot":        {func(d []byte) { le.PutUint64(d[at:], 0) }, menu.ErrCorrupt, "is not in the index"},
		"slot to nowhere":  {func(d []byte) { d[at+4] = 0xff }, menu.ErrCorrupt, "is not in the index"},
		"full index":       {func(d []byte) { copy(d[h.recordsEnd:], bytes.Repeat([]byte{0xff}, 32)) }, menu.ErrCorrupt, "is not in the index"},
		"another tag":      {func(d []byte) { reseal(d, record(d[first:]).id(), 7) }, menu.ErrCorrupt, "does not match its tag"},
		"another id":       {func(d []byte) { reseal(d, 1e9, record(d[first:]).tag()) }, menu.ErrCorrupt, "menu 1000000000"},
		"another body": {func(d []byte) { // a frame with a raw block of one byte, longer than that
			copy(d[first+recordHeader:], "\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00x")
			reseal(d, 1, menu.Tag([]byte("x")))
		}, menu.ErrCorrupt, "decompress"},
	} {
		data := bytes.Clone(whole)
		test.spoil(data)
		fixSums(data)
		write(t, path, data)
		file, err := Follow(path, DefaultConfig())
		if err == nil {
			for id := range int64(5) {
				if page, err := file.Lookup(t.Context(), id); err == nil && menu.Tag(page.Body) != page.Tag {
					t.Errorf("%s: menu %d has a wrong body", name, id)
				}
			}
			err = file.Verify(t.Context(), nil)
			for _, each := range (menus{file}).All(t.Context()) {
				if each != nil && err == nil {
					t.Errorf("%s: got %v, and it was verified", name, each)
				}
			}
		}
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %v with %q", name, err, test.want, test.says)
		}
	}
}

// unhash is the inverse of hash.
func unhash(h uint64) int64 {
	h = (h ^ h>>33) * 0x9cb4b2f8129337db
	h = (h ^ h>>33) * 0x4f74430c22a54005
	return int64(h ^ h>>33)
}

type list []menu.Menu

func (l list) Meta() dataset.Meta { return dataset.Meta{Fingerprint: "a list", Count: int64(len(l))} }

func (l list) All(context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		for _, m := range l {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// Menus whose hashes the index cannot tell apart are told apart by their ids; one id
// twice is refused, wherever it comes again.
func TestCollidingAndDuplicateIDs(t *testing.T) {
	t.Parallel()
	var menus list
	for low := uint64(0); len(menus) < 40; low++ {
		if id := unhash(0xabcdef<<offsetBits | low); id > 0 && id <= dataset.MaxID {
			if hash(id) != 0xabcdef<<offsetBits|low {
				t.Fatal("unhash is not the inverse of hash")
			}
			menus = append(menus, menutest.Example(id, int64(low)))
		}
	}
	missing := menus[0]
	menus = menus[1:]
	path := filepath.Join(t.TempDir(), "menus.record")
	build(t, path, menus)
	file := mustOpen(t, path)
	for i := range menus {
		menutest.Want(t, file, &menus[i], 0)
	}
	if _, err := file.Lookup(t.Context(), missing.ID); !errors.Is(err, menu.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := file.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for id := int64(1); id < 2*chunkMenus; id++ {
		menus = append(menus, menutest.Example(id, id))
	}
	for _, double := range []int{0, 38, 600, len(menus) - 1} {
		err := Build(t.Context(), path, append(slices.Clip(menus), menus[double]), nil, nil)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("two menus have the id %d", menus[double].ID)) {
			t.Errorf("menu %d twice: got %v", double, err)
		}
	}
	if err := mustOpen(t, path).Verify(t.Context(), nil); err != nil {
		t.Errorf("after builds that failed: %v", err)
	}
	for _, wrong := range []menu.Menu{{ID: 0}, {ID: -1}, {ID: 1, Link: strings.Repeat("x", menu.MaxBodyBytes)}} {
		if err := Build(t.Context(), path, list{wrong}, nil, nil); err == nil || !strings.Contains(err.Error(), "is not valid") {
			t.Errorf("menu %d: got %v", wrong.ID, err)
		}
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	path, _ := built(t, 1, 10)
	file := mustOpen(t, path)
	page, err := file.Lookup(t.Context(), 7)
	if err := errors.Join(err, file.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		runtime.GC()
	}
	if menu.Tag(page.Body) != page.Tag {
		t.Error("a page did not outlive its store")
	}
	_, lookup := file.Lookup(t.Context(), 7)
	_, compressed := file.Compressed(7)
	var all error
	for _, err := range (menus{file}).All(t.Context()) {
		all = err
	}
	for i, err := range []error{lookup, compressed, all, file.Verify(t.Context(), nil)} {
		if !errors.Is(err, menu.ErrUnavailable) {
			t.Errorf("%d: got %v, want ErrUnavailable", i, err)
		}
	}
	if file.Dictionary() != nil || file.Meta() != (dataset.Meta{}) {
		t.Error("a closed file has a dictionary, or a description")
	}
}

// What was published and is no menu is found, too, with what was read until then.
func TestVerifyParsesEveryMenu(t *testing.T) {
	t.Parallel()
	menus := make(list, progressStep)
	for i := range menus {
		menus[i] = menutest.Example(int64(i+1), 1)
	}
	path := filepath.Join(t.TempDir(), "menus")
	for _, last := range []struct {
		menu menu.Menu
		want error
	}{{menutest.Example(progressStep+1, 1), nil}, {menu.Menu{ID: progressStep + 1, Currency: `"`}, menu.ErrCorrupt}} {
		build(t, path, append(slices.Clip(menus), last.menu))
		var done, total int64
		err := mustOpen(t, path).Verify(t.Context(), func(d, of int64) { done, total = d, of })
		if !errors.Is(err, last.want) || done != progressStep || total != progressStep+1 {
			t.Errorf("got %v after %d of %d, want %v after %d", err, done, total, last.want, progressStep)
		}
	}
}

// A file that is published anew keeps a dictionary that is given, and one with another is replaced.
func TestDictionaryThatIsGiven(t *testing.T) {
	t.Parallel()
	old, _ := built(t, 1, 600)
	given := mustOpen(t, old).Dictionary()
	path, source := filepath.Join(t.TempDir(), "menus"), menutest.Generator(t, 2, 600)
	for _, with := range []struct {
		dictionary *dictionary.Dictionary
		kept       bool
	}{{nil, false}, {given, false}, {given, true}, {nil, true}} {
		filled, err := Fill(t.Context(), path, source, with.dictionary, nil)
		if err != nil || filled.Kept != with.kept {
			t.Errorf("got %+v and %v, want kept: %v", filled, err, with.kept)
		}
	}
	file := mustOpen(t, path)
	m := source.Menu(7)
	page, err := file.Lookup(t.Context(), 7)
	if err != nil || !bytes.Equal(page.Body, m.AppendJSON(nil)) || file.Dictionary().Name() != given.Name() || file.Verify(t.Context(), nil) != nil {
		t.Errorf("got %s and %v with the dictionary %s, want that of %s", page.Body, err, file.Dictionary().Name(), given.Name())
	}
}

// child makes the test binary the process of a test that ends processes.
func child(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(c.Environ(), "RECORDFILE_CHILD="+path)
	return c
}

func isChild() string { return os.Getenv("RECORDFILE_CHILD") }

// Whatever happens to a file while it is served: no crash, no wrong bytes, and a file that
// is only deleted or replaced loses nothing.
func TestServedFileIsSpoiled(t *testing.T) {
	t.Parallel()
	const count = 300
	if isChild() == "" {
		if out, err := child(t, "yes").CombinedOutput(); err != nil {
			t.Errorf("the server ended: %v\n%.2000s", err, out)
		}
		return
	}
	source := menutest.Generator(t, 1, count)
	_, other := built(t, 2, count)
	for name, test := range map[string]struct {
		spoil   func(path string) error
		damaged func(n int) bool
	}{
		"cut to nothing":    {func(path string) error { return os.Truncate(path, 0) }, func(n int) bool { return n == count }},
		"cut in the middle": {func(path string) error { return os.Truncate(path, 60_001) }, func(n int) bool { return n > 0 && n < count }},
		"cut and grown":     {func(path string) error { return errors.Join(os.Truncate(path, 60_001), os.Truncate(path, 1<<20)) }, func(n int) bool { return n > 0 && n < count }},
		"overwritten":       {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600) }, func(n int) bool { return n == count }},
		"another file":      {func(path string) error { return os.WriteFile(path, other, 0o600) }, func(n int) bool { return n == count }},
		"deleted":           {os.Remove, func(n int) bool { return n == 0 }},
	} {
		path, _ := built(t, 1, count)
		file := mustOpen(t, path)
		if err := test.spoil(path); err != nil {
			t.Fatal(err)
		}
		if damaged := served(t, name, file, source); !test.damaged(damaged) {
			t.Errorf("%s: %d of %d menus are damaged", name, damaged, count)
		}
		if err := file.Verify(t.Context(), nil); (err == nil) != test.damaged(0) || err != nil && !errors.Is(err, menu.ErrCorrupt) {
			t.Errorf("%s: verified: %v", name, err)
		}
	}
}

// slow is a source that says when half of its menus were given for the second time, and
// then gives no more.
type slow struct {
	*menu.Generator
	times *int
}

func (s slow) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	*s.times++
	return func(yield func(menu.Menu, error) bool) {
		for m, err := range s.Generator.All(ctx) {
			if *s.times == 2 && m.ID > s.Meta().Count/2 {
				fmt.Println("half of it")
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour): // without a timer the runtime ends a process in which all wait
				}
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// A build that is killed leaves the old file, and does not stand in the way of the next.
func TestKilledBuild(t *testing.T) {
	t.Parallel()
	const count = 4000
	if path := isChild(); path != "" {
		t.Error(Build(t.Context(), path, slow{menutest.Generator(t, 2, count), new(int)}, nil, nil))
		return
	}
	path, whole := built(t, 1, 100)
	process := child(t, path)
	out, err := process.StdoutPipe()
	if err := errors.Join(err, process.Start()); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 0, 1024)
	for !bytes.Contains(said, []byte("half of it")) {
		n, err := out.Read(said[len(said):cap(said)])
		if said = said[:len(said)+n]; err != nil {
			t.Fatalf("the build ended: %s (%v)", said, err)
		}
	}
	if err := Build(t.Context(), path, menutest.Generator(t, 2, count), nil, nil); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("a second build beside it: got %v, want ErrBusy", err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it was killed
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("the old file has changed (%v)", err)
	}
	if info, err := os.Stat(path + atomicfile.Suffix); err != nil || info.Size() <= headerSize {
		t.Errorf("the test is about a build that has begun: %v", err)
	}
	if _, err := Follow(path+atomicfile.Suffix, DefaultConfig()); !errors.Is(err, menu.ErrVersion) {
		t.Errorf("half a file: got %v, want ErrVersion", err)
	}
	build(t, path, menutest.Generator(t, 2, count))
	if err := mustOpen(t, path).Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	_, undisturbed := built(t, 2, count)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, undisturbed) {
		t.Errorf("it is another file than that of a build that nobody disturbed (%v)", err)
	}
}

// FuzzOpen opens files with changes, as they are and with checksums made right.
func FuzzOpen(f *testing.F) {
	_, whole := built(f, 1, 3)
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
		write(t, path, data)
		file, err := Follow(path, DefaultConfig())
		if err != nil {
			return
		}
		for id := range int64(10) {
			page, err := file.Lookup(t.Context(), id)
			if err == nil && menu.Tag(page.Body) != page.Tag {
				t.Errorf("menu %d: the body does not match its tag", id)
			}
			if err != nil && !errors.Is(err, menu.ErrNotFound) && !errors.Is(err, menu.ErrCorrupt) {
				t.Errorf("menu %d: %v", id, err)
			}
		}
		if err := file.Verify(t.Context(), nil); err != nil && !errors.Is(err, menu.ErrCorrupt) {
			t.Error(err)
		}
	})
}

// What a look-up costs a server: uniform over 100,000 menus.
func BenchmarkLookup(b *testing.B) {
	const count = 100_000
	path, _ := built(b, 1, count)
	file, id := mustOpen(b, path), int64(0)
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		id = (id+7918)%count + 1 // by 7,919, a prime: each menu in turn
		var err error
		var page menu.Page
		if page, err = file.Append(dst[:0], id); err != nil {
			b.Fatal(err)
		}
		dst = page.Body
	}
}

// What a file costs to make, per menu.
func BenchmarkBuild(b *testing.B) {
	path := filepath.Join(b.TempDir(), "menus.record")
	source, err := menu.NewGenerator(1, int64(b.N))
	if err != nil {
		b.Fatal(err)
	}
	build(b, path, source)
	if info, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(info.Size())/float64(b.N), "bytes/menu")
	}
}
