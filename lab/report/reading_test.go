package report

import (
	"bytes"
	"strings"
	"testing"
)

// Too few trials are said in the lead and under the table, and not as if equals
// had been measured.
func TestTooFewTrialsAreSaid(t *testing.T) {
	t.Parallel()
	var text, md bytes.Buffer
	r := twoTrialsResult()
	if err := Text(&text, r, Options{Width: 400}); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&md, r); err != nil {
		t.Fatal(err)
	}
	page := render(t, "two-trials", r)
	const lead, note = "There are too few trials to tell", "2 trials of each are too few to show a difference, it takes 4"
	for name, got := range map[string]string{"text": text.String(), "markdown": md.String(), "page": page} {
		if strings.Count(got, lead) != 1 || strings.Count(got, note) != 1 {
			t.Errorf("%s: lead %d times, note %d times, want each once", name, strings.Count(got, lead), strings.Count(got, note))
		}
		if strings.Contains(got, "has the highest capacity") || strings.Contains(got, "no difference was shown") {
			t.Errorf("%s: reads as if equals had been measured", name)
		}
	}
	if !strings.Contains(page, "~ too few trials, 4 of each are needed") {
		t.Error("the page's table of comparisons does not say so")
	}
}
