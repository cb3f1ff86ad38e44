package csvfile

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"loadstone/system/results"
)

// endless repeats a text.
type endless struct {
	text string
	read int
}

func (e *endless) Read(b []byte) (n int, err error) {
	for n < len(b) {
		n += copy(b[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

// Whatever the file, its check takes little memory and its error is short and says
// where. Not parallel: it counts what the process allocates.
func TestHugeInputs(t *testing.T) {
	const size = 50 << 20
	good := rows(natural)
	for name, c := range map[string]struct{ start, repeated, want string }{
		"columns":                   {"id", ",c", "f.csv:1:"},
		"distinct long columns":     {"", strings.Repeat("x", 3000) + ",", "f.csv:1:"},
		"a column's name":           {"", "x", "f.csv:1:1: the row has more than 65536 bytes"},
		"a field":                   {good + "18,", "x", "f.csv:3:4: the row has more than 65536 bytes"},
		"a quoted field":            {good + `18,"`, "x", "f.csv:3:1: the row has more than 65536 bytes"},
		"a quote that never closes": {good + `18,"`, "x\n", "f.csv:3:1: the row has more than 65536 bytes"},
		"quotes":                    {good, `"`, "f.csv:3:1: the row has more than 65536 bytes"},
		"a row's fields":            {good, "1,", "f.csv:3:"},
		"empty lines":               {good, "\n", "more than 65536 bytes of empty lines"},
		"bad rows":                  {good, strings.Repeat("\x01", 60_000) + "\n", "f.csv:3: the row has 1 fields"},
		"bad fields":                {good, strings.Replace(natural, "female", strings.Repeat("\x01", 60_000), 1) + "\n", `f.csv:3: sex is "\x01`},
		"bad names":                 {good, strings.Replace(natural, "Hanna", strings.Repeat("\x01", 60_000), 1) + "\n", "f.csv:3: name has"},
	} {
		input := &endless{text: c.repeated}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadCorrections(t.Context(), "f.csv", io.MultiReader(strings.NewReader(c.start), io.LimitReader(input, size)))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, results.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %q", name, err, c.want)
		}
		if n := len(fmt.Sprint(err)); n > 20_000 {
			t.Errorf("%s: the error has %d bytes", name, n)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%s: took %d MB", name, grown>>20)
		}
		if most := 2 * MaxMistakes * MaxRowBytes; input.read > most {
			t.Errorf("%s: read %d bytes, want at most %d", name, input.read, most)
		}
	}
}

// A row may be as long as its limit, and no longer.
func TestLongestRow(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]string{MaxRowBytes: "f.csv:2: name has", MaxRowBytes + 1: "f.csv:2:"} {
		row := strings.Replace(natural, "Hanna", strings.Repeat("x", length-len(natural)+len("Hanna")-1), 1) + "\n"
		_, err := ReadCorrections(t.Context(), "f.csv", strings.NewReader(header+"\n"+row+natural))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "65536") != (length > MaxRowBytes) {
			t.Errorf("%d bytes: got %.200v, want %q", length, err, want)
		}
	}
}
