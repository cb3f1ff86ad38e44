package feed

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCSV(t *testing.T) {
	t.Parallel()
	const bom = "\xef\xbb\xbf"
	tests := map[string]string{
		"plain":                    "id,name\n1,Ann\n2,Bob\n",
		"no line end at the end":   "id,name\n1,Ann\n2,Bob",
		"CRLF":                     "id,name\r\n1,Ann\r\n2,Bob\r\n",
		"byte order mark":          bom + "id,name\n1,Ann\n2,Bob\n",
		"mark, quotes and CRLF":    bom + "\"id\",\"name\"\r\n\"1\",\"Ann\"\r\n2,\"Bob\"\r\n",
		"empty lines":              "id,name\n\n1,Ann\n\n2,Bob\n\n",
		"more columns than wanted": "x,id,y,name\n,1,,Ann\n,2,,Bob\n",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "users.csv", content)
			s := open(t, map[string]Feed{"user": {CSV: &File{Path: path}}, "id": {CSV: &File{Path: path, Column: "id"}}})
			for k, want := range []string{"1 Ann 1", "2 Bob 2", "1 Ann 1"} {
				at := Position{Iteration: uint64(k)}
				if got := text(t, s, "user.id", at) + " " + text(t, s, "user.name", at) + " " + text(t, s, "id", at); got != want {
					t.Errorf("row %d is %q, want %q", k, got, want)
				}
			}
		})
	}
}

func TestCSVValuesInQuotes(t *testing.T) {
	t.Parallel()
	path := write(t, "f.csv", "a,b\n\"x, \"\"y\"\"\nz\",\n")
	s := open(t, map[string]Feed{"f": {CSV: &File{Path: path}}})
	if got, want := text(t, s, "f.a", Position{}), "x, \"y\"\nz"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := text(t, s, "f.b", Position{}); got != "" {
		t.Errorf("the empty value is %q", got)
	}
}

func TestJSONL(t *testing.T) {
	t.Parallel()
	path := write(t, "f.jsonl", "\xef\xbb\xbf"+`{"s": "ü \"\u00e9\" \/", "n": 1.50, "big": 12345678901234567890, "b": true, "o": { "k" : [1, "a b"] }, "z": null}`+
		"\r\n\r\n"+`{"z":0,"o":[],"b":false,"big":-1e5,"n":0,"s":"","more":1}`)
	s := open(t, map[string]Feed{"f": {JSONL: &File{Path: path}}, "s": {JSONL: &File{Path: path, Column: "s"}}})
	want := map[string][2]string{
		"f.s": {`ü "é" /`, ""}, "f.n": {"1.50", "0"}, "f.big": {"12345678901234567890", "-1e5"}, "f.b": {"true", "false"},
		"f.o": {`{"k":[1,"a b"]}`, "[]"}, "f.z": {"null", "0"}, "s": {`ü "é" /`, ""},
	}
	if got := len(s.Names()); got != len(want) {
		t.Errorf("there are %v, want %d of them", s.Names(), len(want))
	}
	for name, want := range want {
		for k, want := range want {
			if got := text(t, s, name, Position{Iteration: uint64(k)}); got != want {
				t.Errorf("{%s} of line %d is %q, want %q", name, k+1, got, want)
			}
		}
	}
}

// TestRandomRowsStayWhole: all placeholders of an iteration come from one row,
// and every row comes.
func TestRandomRowsStayWhole(t *testing.T) {
	t.Parallel()
	path := write(t, "f.csv", "a,b\n0,0x\n1,1x\n2,2x\n3,3x\n4,4x\n")
	s := open(t, map[string]Feed{"f": {CSV: &File{Path: path, Random: true}}, "own": {CSV: &File{Path: path, Random: true}, PerVU: true}})
	counts := make([]float64, 5)
	const n = 5000
	for k := range uint64(n) {
		at := Position{Iteration: k, VU: int(k % 3), Own: k / 3}
		for _, feed := range []string{"f", "own"} {
			if a, b := text(t, s, feed+".a", at), text(t, s, feed+".b", at); a+"x" != b {
				t.Fatalf("iteration %d has %s and %s", k, a, b)
			}
		}
		counts[number(t, s, "f.a", at)]++
	}
	if chi := chiSquare(counts, []float64{n / 5, n / 5, n / 5, n / 5, n / 5}); chi > tooFar(4) {
		t.Errorf("chi-square %.1f over %v, want below %.1f", chi, counts, tooFar(4))
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, content, column string
		want                  string // after the path
	}{
		{"a.csv", "", "", ": it is empty: give it a line with the names of its columns and one with values"},
		{"a.csv", "\xef\xbb\xbf", "", ": it is empty"},
		{"a.csv", "id,name\n", "", ": it has no rows: add one at least"},
		{"a.csv", "id,name\n1,2\n", "mail", `:1: there is no column "mail": choose one of "id", "name"`},
		{"a.csv", "id, name\n1,2\n", "name", `:1: there is no column "name": choose one of "id", " name"`},
		{"a.csv", "id,id\n1,2\n", "", `:1: there are two columns "id": rename one`},
		{"a.csv", "id,name\n1,2\n\n3\n", "", ":4: the row has 1 value, and there are 2 columns: give each column one"},
		{"a.csv", "id,name\n1,2\n3,4,5\n", "id", ":3: the row has 3 values, and there are 2 columns"},
		{"a.csv", "id,name\n1,x\"y\n", "", ":2:4: a quote within a value that does not begin with one: put the value in quotes and double those in it"},
		{"a.csv", "id,name\n1,\"x\"y\n", "", ":2:5: a quoted value lacks its closing quote, or has text after it: close it, and write two quotes for one within it"},
		{"a.csv", "id,name\n1,\"x\n", "", ":2:6: a quoted value lacks its closing quote"},
		{"a.csv", "id,name\n1,\"x\n2,y\n3,\"z\n", "", ":4:3: a quoted value lacks its closing quote, or has text after it: close it, and write two quotes for one within it; the row begins on line 2"},
		{"a.csv", "\xff\xfei\x00d\x00", "", ": it is written in UTF-16: save it as UTF-8"},
		{"a.jsonl", "", "", `: it is empty: give it lines such as {"id": 1}`},
		{"a.jsonl", "\n \n", "", ": it is empty"},
		{"a.jsonl", "{\"id\": 1}\n{\"id\": }\n", "", ":2:8: not JSON: invalid character '}' looking for beginning of value: write one object on each line"},
		{"a.jsonl", "{\"id\": 1\n", "", ":1:8: not JSON: unexpected end of JSON input"},
		{"a.jsonl", "{\"id\": 1} {\"id\": 2}\n", "", ":1:11: not JSON: invalid character '{' after top-level value"},
		{"a.jsonl", "{\"id\": 1}\n\n[1]\n", "", `:3: not an object: write lines such as {"id": 1}`},
		{"a.jsonl", "null\n", "", ":1: not an object"},
		{"a.jsonl", "{}\n", "", ":1: the object has no keys"},
		{"a.jsonl", "{\"b\": 1, \"a\": 1}\n", "id", `:1: the object has no key "id": give every line the keys that are used; this one has "a", "b"`},
		{"a.jsonl", "{\"b\": 1, \"a\": 1}\n{\"a\": 1}\n", "", `:2: the object has no key "b": give every line the keys that are used; this one has "a"`},
		{"a.jsonl", "{\"id\": 1}\n{\"id\": \"" + strings.Repeat("x", mostLine) + "\"}\n", "", ":2: the line is longer than 16 MiB: put each object on a line of its own"},
	}
	for _, test := range tests {
		path := write(t, test.name, test.content)
		file := &File{Path: path, Column: test.column}
		f := Feed{CSV: file}
		if filepath.Ext(path) == ".jsonl" {
			f = Feed{JSONL: file}
		}
		_, err := Open(1, "s", map[string]Feed{"user": f})
		wantError(t, err, `feed "user": `+path+test.want)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := write(t, "large.csv", "id\n")
	if err := os.Truncate(large, mostBytes+1<<20); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe:                           pipe + ": not a regular file: give one",
		filepath.Join(dir, "none.csv"): "there is no file " + filepath.Join(dir, "none.csv") + ": write the path of one",
		dir:                            dir + ": not a regular file: give one",
		large:                          large + ": it has 257 MiB, and a feed's file may have 256: take a part of it",
	} {
		_, err := Open(1, "s", map[string]Feed{"user": {CSV: &File{Path: path}}})
		wantError(t, err, want)
	}
}

// FuzzFiles: no file makes a panic, and what is read can be had.
func FuzzFiles(f *testing.F) {
	f.Add("id,name\n1,Ann\n", true)
	f.Add("\"a\"\"\",b\r\n1,\"2\n3\"\r\n", true)
	f.Add(`{"a": 1, "b": {"c": [null]}}`+"\n"+`{"a": "\ud800", "b": true}`, false)
	f.Add("\xef\xbb\xbf{}", false)
	f.Fuzz(func(t *testing.T, content string, isCSV bool) {
		file := &File{Path: write(t, "f", content)}
		feed := Feed{JSONL: file}
		if isCSV {
			feed = Feed{CSV: file}
		}
		s, err := Open(1, "s", map[string]Feed{"f": feed})
		if err != nil {
			return
		}
		for c := range s.columns {
			for k := range s.columns[c].rows.count {
				s.Append(nil, Column(c), Position{Iteration: k})
			}
		}
	})
}
