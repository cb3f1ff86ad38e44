package feed

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// open makes feeds ready, of seed 1 and scenario s.
func open(t testing.TB, feeds map[string]Feed) *Set {
	t.Helper()
	s, err := Open(1, "s", feeds)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// number is the value of a placeholder as a number.
func number(t testing.TB, s *Set, placeholder string, at Position) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text(t, s, placeholder, at), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// text is the value of a placeholder.
func text(t testing.TB, s *Set, placeholder string, at Position) string {
	t.Helper()
	c, ok := s.Lookup(placeholder)
	if !ok {
		t.Fatalf("there is no {%s}; there are %v", placeholder, s.Names())
	}
	return string(s.Append(nil, c, at))
}

// write makes a file of the test's own.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestValuesAreThoseOfTheSeed holds values that have been published in
// results: a seed has to bring them back in every later version.
func TestValuesAreThoseOfTheSeed(t *testing.T) {
	t.Parallel()
	path := write(t, "users.csv", "id\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\n")
	bounds := [2]int64{10_000, 674_823}
	s := open(t, map[string]Feed{
		"uniform":    {Uniform: &bounds},
		"user":       {Uniform: &bounds, PerVU: true},
		"sequential": {Sequential: &bounds},
		"zipf":       {Zipf: &Zipf{Low: 1, High: 1_000_000, Exponent: 0.99}},
		"row":        {CSV: &File{Path: path, Column: "id", Random: true}},
		"next":       {CSV: &File{Path: path, Column: "id"}},
	})
	want := map[string]string{
		"uniform":    "572983 633927 329895 345568 488248 35595",
		"user":       "166742 543387 383553 463163 662079 287440",
		"sequential": "10000 10001 10002 10003 10004 10005",
		"zipf":       "11662 3584 1 28401 308 72",
		"row":        "h f g e h c",
		"next":       "a b c d e f",
	}
	for name, want := range want {
		var got []string
		for k := range uint64(6) {
			got = append(got, text(t, s, name, Position{Iteration: k, VU: int(k % 2), Own: k / 2}))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s gives %s, want %s", name, got, want)
		}
	}
}

func TestSequentialFeed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		bounds [2]int64
		k      uint64
		want   int64
	}{
		{[2]int64{5, 7}, 0, 5},
		{[2]int64{5, 7}, 2, 7},
		{[2]int64{5, 7}, 3, 5},
		{[2]int64{-2, 1}, 3, 1},
		{[2]int64{9, 9}, 12345, 9},
		{[2]int64{math.MinInt64, math.MaxInt64}, 0, math.MinInt64},
		{[2]int64{math.MinInt64, math.MaxInt64}, math.MaxUint64, math.MaxInt64},
	}
	for _, test := range tests {
		s := open(t, map[string]Feed{"f": {Sequential: &test.bounds}})
		if got := number(t, s, "f", Position{Iteration: test.k}); got != test.want {
			t.Errorf("%v: value %d is %d, want %d", test.bounds, test.k, got, test.want)
		}
	}
}

func TestUniformFeedReachesBothEnds(t *testing.T) {
	t.Parallel()
	for _, bounds := range [][2]int64{{0, 0}, {-3, 3}, {math.MinInt64, math.MinInt64 + 1}, {math.MaxInt64 - 1, math.MaxInt64}} {
		s := open(t, map[string]Feed{"f": {Uniform: &bounds}})
		seen := map[int64]bool{}
		for k := range uint64(1000) {
			got := number(t, s, "f", Position{Iteration: k})
			if got < bounds[0] || got > bounds[1] {
				t.Fatalf("%v: value %d is %d", bounds, k, got)
			}
			seen[got] = true
		}
		if want := int(bounds[1] - bounds[0] + 1); len(seen) != want {
			t.Errorf("%v: %d different values, want %d", bounds, len(seen), want)
		}
	}
}

// TestUniformFeedHasNoBias counts values in equal thirds of a range that is
// three quarters of all 64-bit numbers: taking the remainder would put half of
// them into the first third.
func TestUniformFeedHasNoBias(t *testing.T) {
	t.Parallel()
	const third = int64(1) << 62
	const n = 30_000
	bounds := [2]int64{math.MinInt64, math.MinInt64 + third - 1 + third + third}
	s := open(t, map[string]Feed{"f": {Uniform: &bounds}})
	counts := make([]float64, 3)
	for k := range uint64(n) {
		counts[uint64(number(t, s, "f", Position{Iteration: k})-math.MinInt64)/uint64(third)]++
	}
	if chi := chiSquare(counts, []float64{n / 3, n / 3, n / 3}); chi > 16 { // p = 0.0003, two degrees
		t.Errorf("chi-square %.1f over %v, want below 16", chi, counts)
	}
}

// TestStreamsAreIndependent changes one thing at a time.
func TestStreamsAreIndependent(t *testing.T) {
	t.Parallel()
	all := [2]int64{0, math.MaxInt64}
	feeds := map[string]Feed{"f": {Uniform: &all}, "g": {Uniform: &all}, "u": {Uniform: &all, PerVU: true}}
	value := func(master uint64, scenario, name string, at Position) int64 {
		s, err := Open(master, scenario, feeds)
		if err != nil {
			t.Fatal(err)
		}
		return number(t, s, name, at)
	}
	seen := map[int64]string{}
	draw := func(what string, master uint64, scenario, name string, at Position) {
		got := value(master, scenario, name, at)
		if before, ok := seen[got]; ok {
			t.Errorf("%s and %s draw the same, %d", before, what, got)
		}
		seen[got] = what
		if again := value(master, scenario, name, at); again != got {
			t.Errorf("%s: drawn again it is %d, and was %d", what, again, got)
		}
	}
	draw("the base", 1, "s", "f", Position{})
	draw("the next", 1, "s", "f", Position{Iteration: 1})
	draw("another seed", 2, "s", "f", Position{})
	draw("another scenario", 1, "t", "f", Position{})
	draw("another feed", 1, "s", "g", Position{})
	for vu := range 3 {
		for own := range uint64(3) {
			draw("user "+strconv.Itoa(vu)+" at "+strconv.FormatUint(own, 10), 1, "s", "u", Position{VU: vu, Own: own})
		}
	}
}

func TestWalkOfAVirtualUser(t *testing.T) {
	t.Parallel()
	bounds := [2]int64{1, 1_000_000}
	s := open(t, map[string]Feed{
		"own":    {Uniform: &bounds, PerVU: true},
		"count":  {Sequential: &bounds, PerVU: true},
		"shared": {Uniform: &bounds},
	})
	a, b := Position{Iteration: 7, VU: 3, Own: 2}, Position{Iteration: 99, VU: 3, Own: 2}
	if text(t, s, "own", a) != text(t, s, "own", b) {
		t.Error("a user's own walk depends on what the others did")
	}
	if got, want := text(t, s, "count", a), "3"; got != want {
		t.Errorf("a user's third value is %s, want %s", got, want)
	}
	other := Position{Iteration: 7, VU: 4, Own: 9}
	if text(t, s, "shared", a) != text(t, s, "shared", other) {
		t.Error("the shared walk depends on who asks")
	}
}

// TestUseByManyAtOnce reads one set from many goroutines, for the race detector, and
// compares.
func TestUseByManyAtOnce(t *testing.T) {
	t.Parallel()
	bounds := [2]int64{1, 1_000_000}
	s := open(t, map[string]Feed{
		"n": {Uniform: &bounds}, "z": {Zipf: &Zipf{Low: 1, High: 1000, Exponent: 1}},
		"row": {CSV: &File{Path: write(t, "f.csv", "a,b\n1,2\n3,4\n"), Random: true}, PerVU: true},
	})
	walk := func() []byte {
		var out []byte
		for k := range uint64(500) {
			for c := range s.columns {
				out = s.Append(out, Column(c), Position{Iteration: k, VU: int(k % 7), Own: k / 7})
			}
		}
		return out
	}
	want := walk()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if got := walk(); !slices.Equal(got, want) {
				t.Error("the values of another goroutine differ")
			}
		})
	}
	group.Wait()
}

func TestAppendAllocatesNothing(t *testing.T) {
	bounds := [2]int64{1, 1_000_000}
	s := open(t, map[string]Feed{
		"uniform": {Uniform: &bounds, PerVU: true}, "sequential": {Sequential: &bounds},
		"zipf": {Zipf: &Zipf{Low: 1, High: 1000, Exponent: 1}, PerVU: true},
		"csv":  {CSV: &File{Path: write(t, "f.csv", "a,b\nx y,2\n"), Random: true}, PerVU: true},
	})
	dst := make([]byte, 0, 1<<10)
	var k uint64
	got := testing.AllocsPerRun(100, func() {
		k++
		for c := range s.columns {
			dst = s.Append(dst[:0], Column(c), Position{Iteration: k, VU: 5, Own: k})
		}
	})
	if got != 0 {
		t.Errorf("%v allocations a value, want none", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	path := write(t, "f.csv", "id,e.mail\n1,x\n")
	bounds := [2]int64{1, 2}
	s := open(t, map[string]Feed{"user": {CSV: &File{Path: path}}, "one": {CSV: &File{Path: path, Column: "id"}}, "n": {Uniform: &bounds}})
	if got, want := s.Names(), []string{"n", "one", "user.e.mail", "user.id"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	for _, none := range []string{"user", "one.id", "n.n", "", "user.", "ID"} {
		if _, ok := s.Lookup(none); ok {
			t.Errorf("{%s} was found", none)
		}
	}
	if _, err := s.Find("user.ids"); err == nil || !strings.Contains(err.Error(), `f.csv has no column "ids" for {user.ids}: write {user.id}`) {
		t.Errorf("a misspelt column: %v", err)
	}
	if _, err := s.Find("user"); err == nil || !strings.Contains(err.Error(), `f.csv has the columns "id", "e.mail", and {user} names none of them: write {user.id}`) {
		t.Errorf("no column: %v", err)
	}
	alone := open(t, map[string]Feed{"id": {CSV: &File{Path: write(t, "ids.csv", "id\n7\n")}}})
	if got := text(t, alone, "id", Position{}) + text(t, alone, "id.id", Position{}); got != "77" {
		t.Errorf("a file of one column has %q, want 7 by either name", got)
	}
	_, err := Open(1, "s", map[string]Feed{"user": {CSV: &File{Path: path}}, "user.e": {CSV: &File{Path: write(t, "g.csv", "mail,post\n1,2\n")}}})
	wantError(t, err, `feed "user.e": another feed has values for {user.e.mail} too: rename one of them`)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	bounds, wrong := [2]int64{1, 1}, [2]int64{2, 1}
	zipf := func(low, high int64, s float64) Feed { return Feed{Zipf: &Zipf{Low: low, High: high, Exponent: s}} }
	for name, good := range map[string]Feed{
		"uniform": {Uniform: &bounds}, "sequential": {Sequential: &bounds}, "csv": {CSV: &File{Path: "x"}},
		"jsonl": {JSONL: &File{Path: "x", Column: "c", Random: true}, PerVU: true},
		"zipf":  zipf(1, 1<<53, 1), "zipf of one": zipf(math.MinInt64, math.MinInt64, 0.01),
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	tests := []struct {
		feed Feed
		want string
	}{
		{Feed{}, "it has no source: give it one of uniform, sequential, zipf, csv and jsonl"},
		{Feed{Uniform: &bounds, CSV: &File{Path: "x"}}, "it has 2 sources, uniform and csv: give it one"},
		{Feed{Uniform: &wrong}, "uniform: from 2 to 1: put the lower number first"},
		{Feed{Sequential: &wrong}, "sequential: from 2 to 1: put the lower number first"},
		{zipf(2, 1, 1), "zipf: from 2 to 1: put the lower number first"},
		{zipf(0, 1<<53, 1), "zipf: from 0 to 9007199254740992: there may be 2^53 numbers at most: bring the ends nearer to each other"},
		{zipf(math.MinInt64, math.MaxInt64, 1), "there may be 2^53 numbers at most"},
		{zipf(1, 2, 0), "zipf: exponent 0: give a number above 0, such as 0.99"},
		{zipf(1, 2, -1), "zipf: exponent -1:"},
		{zipf(1, 2, math.NaN()), "zipf: exponent NaN:"},
		{zipf(1, 2, math.Inf(1)), "zipf: exponent +Inf:"},
		{Feed{CSV: &File{}}, "csv: it has no path: give the file to read"},
		{Feed{JSONL: &File{}}, "jsonl: it has no path: give the file to read"},
	}
	for _, test := range tests {
		wantError(t, test.feed.Validate(), test.want)
		_, err := Open(1, "s", map[string]Feed{"f": test.feed})
		wantError(t, err, `feed "f": `)
	}
}

// wantError fails unless err says want.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// BenchmarkAppend is what one value costs a generator.
func BenchmarkAppend(b *testing.B) {
	bounds := [2]int64{10_000, 674_823}
	var rows strings.Builder
	rows.WriteString("id,email\n")
	for i := range 100_000 {
		rows.WriteString(strconv.Itoa(i) + ",someone" + strconv.Itoa(i) + "@example.org\n")
	}
	path := write(b, "users.csv", rows.String())
	zipf := &Zipf{Low: 1, High: 1_000_000, Exponent: 0.99}
	for name, f := range map[string]Feed{
		"uniform": {Uniform: &bounds}, "uniform-per-vu": {Uniform: &bounds, PerVU: true},
		"sequential": {Sequential: &bounds}, "zipf": {Zipf: zipf}, "zipf-per-vu": {Zipf: zipf, PerVU: true},
		"csv": {CSV: &File{Path: path, Column: "email"}}, "csv-random-per-vu": {CSV: &File{Path: path, Column: "email", Random: true}, PerVU: true},
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b, map[string]Feed{"f": f})
			dst := make([]byte, 0, 64)
			b.ReportAllocs()
			var k uint64
			for b.Loop() {
				dst = s.Append(dst[:0], 0, Position{Iteration: k, VU: int(k % 64), Own: k / 64})
				k++
			}
		})
	}
}
