package report

import (
	"regexp"
	"testing"

	"loadstone/lab/loadpage/pagetest"
)

// beside are the links that a page may have: to places on it, and to the files
// of the run, which lie in the same directory.
var beside = regexp.MustCompile(`^(#[a-z0-9-]*|data:,|result\.json|run\.json|experiment\.yaml|trials/[0-9]{3}-[A-Za-z0-9._-]+/(trial\.json|samples\.jsonl|windows\.jsonl|logs/)?)$`)

// fetched finds what leads outside of the page and its run.
func fetched(elements []*pagetest.Element) []string { return pagetest.Fetched(elements, beside) }

func wantNone(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// A link to another run's file, or one that runs, is none of those.
func TestLinksOutsideAreFound(t *testing.T) {
	t.Parallel()
	for _, link := range []string{"../run.json", "javascript:alert(1)", "https://example.org/", "trials/../run.json", "/run.json"} {
		if got := fetched(pagetest.Parse(t, `<a href="`+link+`">x</a>`)); len(got) == 0 {
			t.Errorf("%s was not found", link)
		}
	}
}
