package compare

import (
	"bytes"
	"strings"
	"testing"

	"loadstone/lab/stats"
)

func rows(of ...Row) Table { return Table{Rows: of} }

func row(change stats.Change, outcome stats.Outcome) Row {
	return Row{Change: change, Result: &stats.Result{Outcome: outcome}}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	same, few := row(stats.Unclear, stats.Indistinct), row(stats.Unclear, stats.TooFew)
	for want, tables := range map[string][]Table{
		"1 better, 1 worse":       {rows(row(stats.Better, stats.Different), same), rows(Row{Change: stats.Worse})},
		"No difference was found": {rows(same)},
		"No difference was found where there are enough trials to tell": {rows(same), rows(few)},
		"There are too few trials to tell":                              {rows(few), rows(Row{Change: stats.Unclear})},
		"Nothing could be compared":                                     {rows(Row{Change: stats.Unclear})},
	} {
		if got := (&Difference{Tables: tables}).Headline(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// All forms say the same of two runs of two trials each: that these are too few.
func TestFormsBeginWithTheHeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(3, 1)
	a := derive(t, planting(w.variant("plain", 400, 2), w.variant("cached", 1000, 2)))
	b := derive(t, planting(w.variant("plain", 400, 2), w.variant("cached", 990, 2)))
	b.Partial = "4 of 6 trials; the run was stopped"
	d := between(t, a, b, Config{})
	within, err := Within(a, "run-a")
	if err != nil {
		t.Fatal(err)
	}
	const want = "There are too few trials to tell"
	for _, d := range []*Difference{d, within} {
		var text, markdown bytes.Buffer
		if err := Text(&text, d, false); err != nil {
			t.Fatal(err)
		}
		if err := Markdown(&markdown, d); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "\n"+want+"\n") || !strings.HasPrefix(markdown.String(), "### "+want+"\n") {
			t.Errorf("not headed %q:\n%s\n%s", want, text.String(), markdown.String())
		}
	}
	if got := strings.Join(d.Warnings, "\n"); !strings.Contains(got, "run-b is partial: 4 of 6 trials; the run was stopped") {
		t.Errorf("the warnings do not say what is partial: %s", got)
	}
}
