package term

import "testing"

func TestColumnsCountsCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, "abc": 3, "≥4,310": 6, "キャッシュ": 10, "e\u0301te\u0301": 3, "🚀": 2, "한국": 4, "–·✓✗×": 5,
	} {
		if got := Columns(text); got != want {
			t.Errorf("Columns(%q): got %d, want %d", text, got, want)
		}
	}
}

func TestShortenKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 10, "short"},
		{"query-with-three-replicas", 11, "query…licas"},
		{"キャッシュ付きの構成", 9, "キャ…構成"},
		{"anything", 1, "…"},
		{"anything", 0, ""},
	} {
		got := Shorten(c.text, c.limit)
		if got != c.want {
			t.Errorf("Shorten(%q, %d): got %q, want %q", c.text, c.limit, got, c.want)
		}
		if Columns(got) > c.limit {
			t.Errorf("Shorten(%q, %d): got %d columns", c.text, c.limit, Columns(got))
		}
	}
}

func TestPrintableStopsTerminalControl(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"two\nlines\tand\r tabs", "two lines and  tabs"},
		{"\x1b[2Jgone", "\ufffd[2Jgone"},
		{"\u009b31mred", "\ufffd31mred"},
		{"abc\u202edcb", "abc\ufffddcb"},
		{"ok ✓", "ok ✓"},
	} {
		if got := Printable(c.text); got != c.want {
			t.Errorf("Printable(%q): got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestTableAlignsByColumns(t *testing.T) {
	t.Parallel()
	table := &Table{Columns: Columned(2, "lrl")}
	table.Add(Faint.Cells("name", "n", "")...)
	table.Add(Cell{Text: "キャッシュ"}, Cell{"1,234", Red}, Cell{Text: "x"})
	if got, want := table.Text(false), "  name            n\n  キャッシュ  1,234  x\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := table.Text(true), "  \x1b[2mname\x1b[0m            \x1b[2mn\x1b[0m\n  キャッシュ  \x1b[31m1,234\x1b[0m  x\n"; got != want {
		t.Errorf("got\n%qwant\n%q", got, want)
	}
	if got, want := table.Width(), 22; got != want {
		t.Errorf("got a width of %d, want %d", got, want)
	}
}

func TestColorsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal bool
		env      map[string]string
		want     bool
	}{
		{true, nil, true}, {false, nil, false}, {true, map[string]string{"NO_COLOR": "1"}, false}, {true, map[string]string{"TERM": "dumb"}, false},
	} {
		if got := Colors(c.terminal, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestMarkdownTable(t *testing.T) {
	t.Parallel()
	table := NewTable(2, "ll", "", "A|B")
	table.Add(Bold.Cell("a_b"), Plain.Cell("1 <i>\nx"))
	table.Add(Red.Cell(""), Plain.Cell("http://x"))
	want := "|  | A\\|B |\n|---|---:|\n| **a\\_b** | 1 &lt;i&gt; x |\n|  | http:\u200b//x |\n"
	if got := table.Markdown("lr"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
