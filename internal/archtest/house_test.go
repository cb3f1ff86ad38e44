package archtest

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floors are the rooms of the instrument from the ground up, as docs/DESIGN.md has
// them. A room may import rooms that stand before it, and no others: so data flows one
// way, and a new room is a decision made here. What is below a room and not listed
// belongs to it.
var floors = []string{
	// numbers, and how they are written
	"lab/stats", "lab/format", "lab/term", "lab/chart", "lab/junit",
	// what runs
	"lab/autoscale", "lab/topology",
	"lab/host/procstat", "lab/host/cgroup", "lab/host/sockets", "lab/host/packets", "lab/host",
	"lab/driver/guardian", "lab/driver/publish", "lab/driver",
	// what is offered
	"lab/load/failure", "lab/load/seed", "lab/load/feed", "lab/load/accesslog", "lab/load/httpclient", "lab/load/exchange",
	"lab/load", "lab/load/rpc", "lab/load/roundtrip", "lab/load/websocket", "lab/load/engine", "lab/load/generator", "lab/load/k6", "lab/load/export",
	// what is wanted, and what is seen
	"lab/threshold", "lab/load/summary", "lab/fault", "lab/perturb",
	"lab/probe", "lab/series",
	"lab/experiment", "lab/importer",
	// what came of it
	"lab/capacity", "lab/archive", "lab/runner",
	"lab/model", "lab/verdict", "lab/result", "lab/analysis", "lab/predict", "lab/compare",
	// how it is told
	"lab/report", "lab/loadpage", "lab/ui", "lab/selftest",
	// drivers: the rest of the lab knows the interface alone
	"lab/driver/process/recipe", "lab/driver/process", "lab/driver/docker", "lab/driver/kubernetes", "lab/driver/attach",
}

// testOnly are packages that only tests import. They may use any room.
var testOnly = []string{"lab/host/cgroup/cgrouptest", "lab/driver/drivertest", "lab/archive/archivetest", "lab/loadpage/pagetest"}

// owners are words of which there is one idea in the lab, and where it is a type: a type
// of such a name, exported or not, elsewhere is the same idea a second time.
var owners = map[string]string{
	"Interval": "lab/stats",
	"Host":     "lab/host",
	"Plan":     "lab/load",
}

// typesFile lists the exported types of the lab, each with its room. A type that is
// found elsewhere has moved; if it belongs there, write the list again:
//
//	go test ./internal/archtest -update
const typesFile = "testdata/types.txt"

var update = flag.Bool("update", false, "write the list of the lab's types again")

// room returns the room that a package belongs to, and "" if it is in none.
func room(pkg string) string {
	best := ""
	for _, f := range floors {
		if below(pkg, f) && len(f) > len(best) {
			best = f
		}
	}
	return best
}

// upward says why src may not import dst, and nothing if it may.
func upward(src, dst string) string {
	if !below(src, "lab") || !below(dst, "lab") || slices.ContainsFunc(testOnly, func(p string) bool { return below(src, p) }) {
		return ""
	}
	if i := slices.IndexFunc(testOnly, func(p string) bool { return below(dst, p) }); i >= 0 {
		return testOnly[i] + " is for tests only"
	}
	from, to := room(src), room(dst)
	switch {
	case from == "":
		return src + " is in no room; see floors in internal/archtest"
	case to == "":
		return dst + " is in no room; see floors in internal/archtest"
	case slices.Index(floors, to) > slices.Index(floors, from):
		return "the arrow runs back: " + to + " stands above " + from
	}
	return ""
}

func TestArrowsRunOneWay(t *testing.T) {
	t.Parallel()
	empty := map[string]bool{}
	for _, f := range floors {
		empty[f] = true
	}
	for _, p := range packages(t) {
		src := strings.TrimPrefix(p.ImportPath, module)
		if below(src, "lab") && len(p.Imports) == 0 && room(src) == "" && !slices.ContainsFunc(testOnly, func(q string) bool { return below(src, q) }) {
			t.Errorf("%s is in no room; see floors in internal/archtest", src)
		}
		delete(empty, room(src))
		for _, imp := range p.Imports {
			if dst, ok := strings.CutPrefix(imp, module); ok {
				if why := upward(src, dst); why != "" {
					t.Errorf("%s imports %s: %s", src, dst, why)
				}
			}
		}
	}
	for _, f := range slices.Sorted(maps.Keys(empty)) {
		t.Errorf("%s is a room without a package", f)
	}
}

func TestTypesAreInTheirRooms(t *testing.T) {
	t.Parallel()
	found := declared(t)
	for pkg, names := range found {
		for _, name := range names {
			if why := misplaced(pkg, name); why != "" {
				t.Errorf("%s: %s", pkg, why)
			}
		}
	}
	for word, owner := range owners {
		if !slices.Contains(found[owner], word) {
			t.Errorf("%s has no type %s", owner, word)
		}
	}
	if *update {
		if err := os.WriteFile(typesFile, []byte(list(found)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range moved(string(text), found) {
		t.Error(why)
	}
}

// declared are the types of each package of the lab, tests left out.
func declared(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir("../../lab", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, "../../")))
		found[pkg] = append(found[pkg], types(t, path, text)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// list writes the exported types, a line for each.
func list(found map[string][]string) string {
	var lines []string
	for pkg, names := range found {
		for _, name := range names {
			if ast.IsExported(name) {
				lines = append(lines, pkg+" "+name)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// moved says of each type of the list that is no longer in its room where it is now. A
// type that is nowhere is no longer needed; one that is not listed is new.
func moved(listed string, found map[string][]string) (why []string) {
	for line := range strings.Lines(listed) {
		pkg, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(found[pkg], name) {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(found)) {
			if slices.Contains(found[other], name) && !strings.Contains("\n"+listed, "\n"+other+" "+name+"\n") {
				why = append(why, name+" has moved from "+pkg+" to "+other+"; if it belongs there, say so in "+typesFile)
			}
		}
	}
	return why
}

// misplaced says why a type may not be in a package; names count in any case.
func misplaced(pkg, name string) string {
	for word, owner := range owners {
		if strings.EqualFold(name, word) && pkg != owner {
			return "type " + name + ": " + word + " is a word of " + owner
		}
	}
	return ""
}

// types are the names of the types that a file declares.
func types(t *testing.T, path string, text []byte) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok {
				names = append(names, ts.Name.Name)
			}
		}
	}
	return names
}

// The rules of the house must be able to fail.
func TestHouseRulesFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		src, dst string
		wrong    bool
	}{
		{"lab/analysis", "lab/result", false},
		{"lab/analysis", "lab/report", true}, // as it was: who computes imports the presentation
		{"lab/load", "lab/load/engine", true},
		{"lab/load/engine", "lab/load", false},
		{"lab/driver", "lab/driver/process", true},
		{"lab/host", "lab/driver", true},
		{"lab/runner", "lab/driver/docker", true},
		{"lab/result", "lab/analysis", true},
		{"lab/stats", "lab/result", true},
		{"lab/driver/drivertest", "lab/ui", false},
		{"lab/runner", "lab/driver/drivertest", true},
		{"lab/attic", "lab/stats", true},
	} {
		if why := upward(c.src, c.dst); (why != "") != c.wrong {
			t.Errorf("%s imports %s: got %q", c.src, c.dst, why)
		}
	}
	names := types(t, "x.go", []byte("package x\ntype interval struct{}\ntype (\n\tFine int\n)\n"))
	if !slices.Equal(names, []string{"interval", "Fine"}) {
		t.Errorf("got types %q", names)
	}
	found := map[string][]string{"lab/result": {"Variant"}, "lab/report": {"Figure", "page"}}
	if why := moved("lab/result Figure\nlab/result Gone\nlab/result Variant\n", found); len(why) != 1 || !strings.HasPrefix(why[0], "Figure has moved from lab/result to lab/report") {
		t.Errorf("got %q", why)
	}
	if got := list(found); got != "lab/report Figure\nlab/result Variant\n" {
		t.Errorf("got %q", got)
	}
	if misplaced("lab/report", "interval") == "" || misplaced("lab/report", "Interval") == "" || misplaced("lab/stats", "Interval") != "" || misplaced("lab/report", "Fine") != "" {
		t.Error("a word may be in a wrong room, or not in its own")
	}
}
