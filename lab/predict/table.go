package predict

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/term"
)

// Text writes the predictions for people: a line to a topology, and what came of
// them all.
func (s *Several) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d topologies from %s, %s\n\n", len(s.Predictions), s.Run, s.Unit)
	b.WriteString(s.table().Text(false))
	s.score(&b)
	for _, line := range s.notes("assumed: ", func(a *Answer) []string { return a.Assumptions }) {
		b.WriteString(line)
	}
	for _, line := range s.notes("warning: ", func(a *Answer) []string { return a.Warnings }) {
		b.WriteString(line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Several) table() *term.Table {
	heads := []string{"#", "topology", "predicted", "factor", "limit", "next"}
	if s.Check != nil {
		heads = append(heads, "measured", "error", "of factor", "limit")
	}
	t := term.NewTable(2, strings.Repeat("l", len(heads)), heads...)
	for i, a := range s.Predictions {
		factor, next := format.Missing, format.Missing
		if a.Base != nil {
			factor = "×" + format.Measured(a.Capacity.Value / *a.Base)
		}
		if a.Next != nil {
			next = fmt.Sprintf("%s, %s", a.Next.Station, format.Measured(a.Next.Capacity))
		}
		row := []string{strconv.Itoa(i + 1), s.topologies[i].String(), estimated(a.Capacity), factor, a.Limit.Station, next}
		if s.Check != nil {
			row = append(row, a.checked()...)
		}
		t.AddTexts(row...)
	}
	return t
}

// checked are the cells of a prediction that was checked.
func (a *Answer) checked() []string {
	c := a.Check
	if c == nil {
		return []string{"held no rate", format.Missing, format.Missing, format.Missing}
	}
	ratio := format.Missing
	if c.Again > 0 {
		ratio = format.Change(c.ErrorOfRatio)
	}
	return []string{c.measured(), c.off(), ratio, cmp.Or(c.Limit, format.Missing)}
}

func (s *Several) score(b *strings.Builder) {
	c := s.Check
	if c == nil {
		return
	}
	median := func(x *float64) string {
		if x == nil {
			return "not known"
		}
		return strings.TrimPrefix(format.Change(*x), "+")
	}
	fmt.Fprintf(b, "\nchecked    in %s, all in the same rounds as what they were predicted from\n", c.Run)
	known := fmt.Sprintf("%d topologies", c.Topologies-c.Bounds)
	if c.Topologies-c.Bounds == 1 {
		known = "1 topology"
	}
	fmt.Fprintf(b, "error      median of %s: %s of the capacity, %s of the factor\n", known, median(c.Error), median(c.ErrorOfRatio))
	if c.Bounds > 0 {
		fmt.Fprintf(b, "bounds     %d measured only a lower bound and count in no error; %d of these were predicted below it\n", c.Bounds, c.TooLow)
	}
	if c.Intervals > 0 {
		fmt.Fprintf(b, "intervals  %d of %d hold what was measured, which is uncertain itself\n", c.Inside, c.Intervals)
	}
	if c.Named > 0 {
		fmt.Fprintf(b, "limit      %d of the %d that were named are those that were predicted\n", c.Right, c.Named)
	}
}

// notes are sentences with the topologies that they are about, each sentence once.
func (s *Several) notes(begin string, of func(*Answer) []string) []string {
	var texts []string
	about := make(map[string][]string)
	for i, a := range s.Predictions {
		for _, text := range of(a) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
			if n := fmt.Sprint(i + 1); !slices.Contains(about[text], n) {
				about[text] = append(about[text], n)
			}
		}
	}
	var out []string
	for i, text := range texts {
		to := ""
		if n := len(about[text]); n < len(s.Predictions) {
			to = " (" + strings.Join(about[text], ", ") + ")"
		}
		if i == 0 {
			begin = "\n" + begin
		}
		out = append(out, begin+text+to+"\n")
		begin = strings.TrimPrefix(begin, "\n")
	}
	return out
}
