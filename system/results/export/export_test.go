package export_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/export"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = export.Key{1, 2, 3}

func config(t *testing.T) export.Config {
	t.Helper()
	return export.Config{
		Root:    filepath.Join(t.TempDir(), "tree, 100%"),
		Namer:   export.Namer{Key: testKey, Iterations: 2},
		Formats: []export.Format{export.JSON, export.HTML},
	}
}

func mustBuild(t *testing.T, cfg export.Config, source dataset.Source[results.Student]) export.Report {
	t.Helper()
	report, err := export.Build(t.Context(), cfg, source)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// content is all files below the root with the hash of their bytes.
func content(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		sum := sha256.Sum256(text)
		files[filepath.ToSlash(name)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func checkSame(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d files, want %d", len(got), len(want))
	}
	for name, sum := range want {
		if got[name] != sum {
			t.Errorf("%s is not as wanted", name)
		}
	}
}

func checkNothingBeside(t *testing.T, root string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Dir(root))
	if err != nil || len(names) != 1 {
		t.Errorf("got %v, %v, want the root alone", names, err)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	const count = 40
	source := resultstest.Generator(t, 1, count)
	cfg := config(t)
	if got, want := mustBuild(t, cfg, source), (export.Report{Students: count, Written: 2 * count}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	files := content(t, cfg.Root)
	if len(files) != 2*count+1 { // and the manifest
		t.Errorf("got %d files, want %d", len(files), 2*count+1)
	}
	checkNothingBeside(t, cfg.Root)
	for id := int64(1); id <= count; id++ {
		s := source.Student(id)
		for format, want := range map[export.Format]string{export.JSON: string(s.AppendJSON(nil)), export.HTML: "<h1>" + s.Name + "</h1>"} {
			path, err := cfg.Namer.Path(id, strings.ToLower(s.Code[:5]+"- "+s.Code[5:]), format)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(cfg.Root, filepath.FromSlash(path)))
			if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), s.Code) {
				t.Errorf("student %d, %s: got %s, %v, want %q and no code", id, path, text, err, want)
			}
		}
	}
	other := config(t)
	mustBuild(t, other, source)
	checkSame(t, content(t, other.Root), files)
	if got, want := mustBuild(t, cfg, source), (export.Report{Unchanged: true, Students: count}); got != want {
		t.Errorf("a second time: got %+v, want %+v", got, want)
	}
}

// A tree replaces another one whole: no name of the old one stays.
func TestReplaces(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	mustBuild(t, cfg, resultstest.Generator(t, 1, 50))
	if err := os.Chmod(cfg.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	before := content(t, cfg.Root)
	mustBuild(t, cfg, resultstest.Generator(t, 2, 60))
	after := content(t, cfg.Root)
	if len(after) != 121 {
		t.Errorf("got %d files, want 121", len(after))
	}
	for name := range after {
		if _, ok := before[name]; ok && name != "manifest.json" {
			t.Errorf("%s is in both trees", name)
		}
	}
	checkNothingBeside(t, cfg.Root)
	if info, err := os.Stat(cfg.Root); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got %v, %v, want the old root's access bits", info.Mode(), err)
	}
}

// An interrupted export leaves the root alone and goes on where it was, and files
// that were cut short are written again.
func TestResumes(t *testing.T) {
	t.Parallel()
	// Few files more than a step of the progress, as some disks take a
	// millisecond for each.
	const count, enough = 4600, 3500
	source := resultstest.Generator(t, 1, count)
	cfg := config(t)
	cfg.Formats = []export.Format{export.JSON}
	ctx, cancel := context.WithCancel(t.Context())
	var told []int64
	cfg.Progress = func(done, total int64) {
		if total != count || (len(told) > 0 && done <= told[len(told)-1]) {
			t.Errorf("progress: got %d of %d after %v", done, total, told)
		}
		told = append(told, done)
		cancel()
	}
	if _, err := export.Build(ctx, cfg, source); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	if _, err := os.Stat(cfg.Root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the interruption: got %v, want no root", err)
	}
	s := source.Student(1)
	path, err := cfg.Namer.Path(1, s.Code, export.JSON)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(cfg.Root+atomicfile.Suffix, filepath.FromSlash(path))
	if err := os.Truncate(cut, 7); err != nil {
		t.Fatal(err)
	}
	told = nil
	report := mustBuild(t, cfg, source)
	if report.Kept < enough-1 || report.Written < 1 || report.Kept+report.Written != count {
		t.Errorf("got %+v, want most of the first %d students' files kept", report, enough)
	}
	if len(told) < 2 || told[len(told)-1] != count {
		t.Errorf("progress: got %v, want steps and the end", told)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Root, filepath.FromSlash(path)))
	if want := string(s.AppendJSON(nil)); err != nil || string(text) != want {
		t.Errorf("the file that was cut short: got %s, %v, want %s", text, err, want)
	}
	if got := len(content(t, cfg.Root)); got != count+1 {
		t.Errorf("got %d files, want %d", got, count+1)
	}
}

// What an interrupted export of other data has left is not published.
func TestStrangersAreClearedAway(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	stale := filepath.Join(cfg.Root+atomicfile.Suffix, "a", "b", "stale.json")
	if err := os.MkdirAll(filepath.Dir(stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, cfg, resultstest.Generator(t, 1, 10))
	if got := len(content(t, cfg.Root)); got != 21 {
		t.Errorf("got %d files, want 21", got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	good := resultstest.Generator(t, 1, 3)
	student := good.Student(1)
	weak := student
	weak.Code = "12-34-56-78"
	list := func(students ...results.Student) resultstest.List {
		return resultstest.List{Description: dataset.Meta{Fingerprint: "x", Count: int64(len(students))}, Students: students}
	}
	for want, c := range map[string]struct {
		change func(*export.Config)
		source dataset.Source[results.Student]
	}{
		"student 1 has 8 letters":      {nil, list(weak)},
		"came twice":                   {nil, list(student, student)},
		"not valid":                    {nil, list(results.Student{ID: 1})},
		"there must be records":        {nil, list()},
		"no key":                       {func(c *export.Config) { c.Namer.Key = export.Key{} }, good},
		"iterations is 0":              {func(c *export.Config) { c.Namer.Iterations = 0 }, good},
		"no format":                    {func(c *export.Config) { c.Formats = nil }, good},
		`format is "pdf"`:              {func(c *export.Config) { c.Formats = []export.Format{"pdf"} }, good},
		"named twice":                  {func(c *export.Config) { c.Formats = []export.Format{export.JSON, export.JSON} }, good},
		"directory to export to":       {func(c *export.Config) { c.Root = "" }, good},
		"holds something else":         {func(c *export.Config) { c.Root = "." }, good},
		"make a directory to build in": {func(c *export.Config) { c.Root += "/not/there" }, good},
	} {
		cfg := config(t)
		if c.change != nil {
			c.change(&cfg)
		}
		if _, err := export.Build(t.Context(), cfg, c.source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := os.Stat(filepath.Join(cfg.Root, "manifest.json")); err == nil {
			t.Errorf("%s: there is a tree", want)
		}
	}
}

// blocking is a source that waits before its first student.
type blocking struct {
	dataset.Source[results.Student]
	started, release chan struct{}
}

func (b blocking) Meta() dataset.Meta {
	meta := b.Source.Meta()
	meta.Fingerprint = "other"
	return meta
}

func (b blocking) All(ctx context.Context) iter.Seq2[results.Student, error] {
	close(b.started)
	<-b.release
	return b.Source.All(ctx)
}

func TestSecondExportIsRefused(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	source := resultstest.Generator(t, 1, 5)
	slow := blocking{source, make(chan struct{}), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := export.Build(context.Background(), cfg, slow)
		done <- err
	}()
	<-slow.started
	if _, err := export.Build(t.Context(), cfg, source); !errors.Is(err, atomicfile.ErrBusy) {
		t.Errorf("beside another export: got %v, want ErrBusy", err)
	}
	close(slow.release)
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
}

// The names are what the documentation says, so that an edge function can make
// them too. The values were computed with Python's hashlib and hmac.
func TestNames(t *testing.T) {
	t.Parallel()
	name := func(key export.Key, iterations int, id int64, code string) string {
		got, err := export.Namer{Key: key, Iterations: iterations}.Name(id, code)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := name(testKey, 1000, 123456, "7QX4M2KD90AZ")
	if known := "64xtb10px6pmfk4p0e6yxdvm42bvw09h"; want != known {
		t.Errorf("got %s, want %s", want, known)
	}
	if got := name(testKey, 1000, 123456, "7qx4-m2kd 90az"); got != want {
		t.Errorf("the code as it is typed: got %s, want %s", got, want)
	}
	for what, got := range map[string]string{
		"another key":        name(export.Key{1, 2, 4}, 1000, 123456, "7QX4M2KD90AZ"),
		"another id":         name(testKey, 1000, 123457, "7QX4M2KD90AZ"),
		"another code":       name(testKey, 1000, 123456, "7QX4M2KD90AY"),
		"another iterations": name(testKey, 1001, 123456, "7QX4M2KD90AZ"),
	} {
		if got == want {
			t.Errorf("%s gives the same name", what)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := export.NewKey()
	if got, err := export.ParseKey(" " + key.Text() + "\n"); err != nil || got != key {
		t.Errorf("got %v, want the same key", err)
	}
	for _, bad := range []string{"", "abc", strings.Repeat("x", 64), strings.Repeat("a", 65)} {
		if _, err := export.ParseKey(bad); err == nil || (bad != "" && strings.Contains(err.Error(), bad)) {
			t.Errorf("%q: got %v, want an error that does not quote it", bad, err)
		}
	}
	for _, shown := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key), fmt.Sprintf("%+v", export.Config{Namer: export.Namer{Key: key}})} {
		if strings.Contains(shown, key.Text()[:8]) {
			t.Errorf("got %s, want no key", shown)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add("")
	f.Add(testKey.Text())
	f.Add(strings.Repeat("g", 64))
	f.Fuzz(func(t *testing.T, text string) {
		key, err := export.ParseKey(text)
		if err == nil && !strings.EqualFold(key.Text(), strings.TrimSpace(text)) {
			t.Errorf("%q became %s", text, key.Text())
		}
	})
}

func TestPageIsEscaped(t *testing.T) {
	t.Parallel()
	s := resultstest.Generator(t, 1, 1).Student(1)
	s.Name, s.School = `<script>alert("1")</script>`, `"><img src=x>`
	cfg := config(t)
	mustBuild(t, cfg, resultstest.List{Description: dataset.Meta{Fingerprint: "x", Count: 1}, Students: []results.Student{s}})
	for _, format := range cfg.Formats {
		path, err := cfg.Namer.Path(s.ID, s.Code, format)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(cfg.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "<script") || strings.Contains(string(text), "<img") {
			t.Errorf("%s is not escaped: %s", format, text)
		}
		if format == export.JSON && !json.Valid(text) {
			t.Errorf("got %s, want JSON", text)
		}
	}
}

// What a student costs, with the names' iterations as they are by default.
func BenchmarkBuild(b *testing.B) {
	const count = 2000
	source := resultstest.Generator(b, 1, count)
	cfg := export.Config{Namer: export.Namer{Key: testKey, Iterations: export.DefaultIterations}, Formats: []export.Format{export.JSON, export.HTML}}
	for i := range b.N {
		cfg.Root = filepath.Join(b.TempDir(), fmt.Sprint(i))
		if _, err := export.Build(b.Context(), cfg, source); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*count), "µs/student")
}

// What a name costs: nearly all of a student's time on a fast disk.
func BenchmarkName(b *testing.B) {
	namer := export.Namer{Key: testKey, Iterations: export.DefaultIterations}
	for id := int64(1); b.Loop(); id++ {
		if _, err := namer.Name(id, "7QX4M2KD90AZ"); err != nil {
			b.Fatal(err)
		}
	}
}
