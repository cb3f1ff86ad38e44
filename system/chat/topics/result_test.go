package topics

import (
	"strings"
	"testing"
)

func TestParseResult(t *testing.T) {
	t.Parallel()
	if stream, err := ParseResult(Analysis, []byte(`{"stream":7,"type":"totals","next":3}`)); err != nil || stream != 7 {
		t.Errorf("got stream %d and %v, want 7", stream, err)
	}
	if stream, err := ParseResult(Summaries, []byte(`{"stream":7,"type":"summary","lines":[]}`)); err != nil || stream != 7 {
		t.Errorf("got stream %d and %v, want 7", stream, err)
	}
	for _, wrong := range []string{"", "x", "[]", `{"stream":"7","type":"totals"}`, `{"stream":7}`, `{"type":"totals"}`, `{"stream":7,"type":"summary"}`, `{"stream":7,"type":"totals","x":"` + strings.Repeat("x", maxResult) + `"}`} {
		if _, err := ParseResult(Analysis, []byte(wrong)); err == nil {
			t.Errorf("%.40q is a result", wrong)
		}
	}
}
