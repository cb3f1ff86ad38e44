package report

import (
	"bytes"
	"strings"
	"testing"

	"loadstone/lab/result"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	write := func(r *result.Result) string {
		t.Helper()
		var b bytes.Buffer
		if err := Markdown(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := write(sampleResult())
	for _, want := range []string{"### How should exam results", "| variant | capacity, req/s |", "4,310 \\[4,180, 4,420\\]", "✓ 2 of 2", "<details>", "**snapshot**"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if text := write(loadResult()); !strings.Contains(text, "| p50 | p95 | p99 |") {
		t.Errorf("a load as written has no response times:\n%s", text)
	}
	if text := write(&result.Result{}); !strings.Contains(text, "Nothing was measured") {
		t.Errorf("an empty result: %s", text)
	}

	// Names stay names: no markup, no mention, no further line.
	hostile := sampleResult()
	setStrings(hostile, "a|b\n# c <img src=x> @everyone **d** [e](http://f) `g`")
	text = write(hostile)
	for _, line := range tableLines(text) {
		if strings.Count(strings.ReplaceAll(line, "\\|", ""), "|") != 7 {
			t.Errorf("a row of the table is torn: %s", line)
		}
	}
	for _, bad := range []string{"<img", "@everyone", "**d**", "[e](", "\n# c", "`g`", "a|b"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is markup in:\n%.600s", bad, text)
		}
	}
}

func tableLines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			out = append(out, line)
		}
	}
	return out
}

func TestHeadlines(t *testing.T) {
	t.Parallel()
	heads := Headlines(sampleResult())
	if h := heads[len(heads)-1]; h.Figure != "4,310 req/s" || h.Interval != "[4,180, 4,420]" || h.Limit == "" || h.Crossed {
		t.Errorf("got %+v", h)
	}
	if h := Headlines(loadResult())[0]; !strings.HasPrefix(h.Figure, "p95 ") || h.Interval != "" {
		t.Errorf("got %+v", h)
	}
}
