package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"loadstone/lab/archive"
	"loadstone/lab/stats"
	"loadstone/lab/term"
)

// WriteText prints the score as a table, and beneath it what was wrong and where
// its raw data is. A * marks a method that was wrong, a dash one that was not
// applied.
func WriteText(w io.Writer, s *Score) error {
	table := term.NewTable(0, "llllllll", "system", "bottleneck", "demand", "saturation", "perturbation", "waiting", "verdict", "")
	for i := range s.Rows {
		r := &s.Rows[i]
		row := []string{r.Name, r.Truth.String()}
		for _, name := range methods() {
			row = append(row, r.Witnesses[name].cell())
		}
		verdict := "right"
		switch {
		case r.LeftOut:
			verdict = "left out"
		case r.Misleads:
			verdict = "MISLEADS"
		case !r.Right():
			verdict = "WRONG"
		}
		table.AddTexts(append(row, r.Verdict.cell(), verdict)...)
	}
	var b strings.Builder
	b.WriteString(table.Text(false) + "\n")
	for i := range s.Rows {
		s.Rows[i].explain(&b)
	}
	s.writeShares(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeShares writes how often verdicts and methods were right, and how often the variants of
// pairs were called different.
func (s *Score) writeShares(b *strings.Builder) {
	for i := range s.Pairs {
		fmt.Fprintf(b, "%s; seed %d, %.0f s\n", s.Pairs[i].text(), s.Seed, s.Seconds)
	}
	if s.Verdicts == 0 && len(s.Rows) > 0 {
		return
	}
	word := "passed"
	if len(s.Rows) == 0 || s.Right < s.Needed {
		word = "FAILED"
	}
	fmt.Fprintf(b, "%s: %d of %d verdicts are right, %d needed; seed %d, %.0f s\n", word, s.Right, s.Verdicts, s.Needed, s.Seed, s.Seconds)
	if n := s.Verdicts; n > 0 {
		right, misled := stats.Share(s.Right, n), stats.Share(s.Misled, n)
		fmt.Fprintf(b, "  right %.0f %% [%.0f, %.0f], naming what does not limit %.0f %% [%.0f, %.0f]; 95 %% intervals of Clopper and Pearson\n",
			100*right.Value, 100*right.Low, 100*right.High, 100*misled.Value, 100*misled.Low, 100*misled.High)
	}
	for _, name := range methods() {
		right, applied := s.count(name)
		fmt.Fprintf(b, "  %-12s right about %d of the %d that it was applied to\n", name, right, applied)
	}
}

// count is how often a method was right, and how often it was applied.
func (s *Score) count(method string) (right, applied int) {
	for i := range s.Rows {
		said, ok := s.Rows[i].Witnesses[method]
		if ok {
			applied++
		}
		if said.Right {
			right++
		}
	}
	return right, applied
}

func (s Finding) cell() string {
	switch {
	case s.Text == "":
		return "-"
	case s.Right:
		return s.Text
	}
	return s.Text + " *"
}

// explain says of a wrong verdict what it was and where to look.
func (r *Row) explain(b *strings.Builder) {
	if r.Right() {
		return
	}
	fmt.Fprintf(b, "%s, seed %d: the known bottleneck: %s (%s).\n", r.Name, r.Seed, r.What, r.Truth)
	if r.Error != "" {
		fmt.Fprintf(b, "  It could not be measured: %s\n", r.Error)
	} else {
		fmt.Fprintf(b, "  The verdict: %s\n", r.Summary)
		if l := r.Located; l != nil && r.Truth.AtOnce > 0 {
			fmt.Fprintf(b, "  It counts %.3g at a time, of %g.\n", l.AtOnce, r.Truth.AtOnce)
		}
	}
	if r.Run != "" {
		fmt.Fprintf(b, "  raw %s\n", r.Run)
	}
	b.WriteByte('\n')
}

// WriteJSON prints the score for programs.
func WriteJSON(w io.Writer, s *Score) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// WriteFile writes the score as JSON to path, whole or not at all.
func WriteFile(path string, s *Score) error {
	var b bytes.Buffer
	if err := WriteJSON(&b, s); err != nil {
		return err
	}
	return archive.WriteFile(path, b.Bytes())
}
