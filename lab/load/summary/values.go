package summary

import "loadstone/lab/format"

// values has what steps extracted as metrics.
func (s *Summary) values(p *page) {
	if len(s.Values) == 0 {
		return
	}
	rows := [][]string{{"", "values", "mean", "least", "p50", "p95", "p99", "most", "last"}}
	for i := range s.Values {
		v := &s.Values[i]
		row := []string{p.clean(v.Step) + " " + p.clean(v.Name), format.Count(v.Count)}
		for _, figure := range v.Figures() {
			if v.Count == 0 {
				row = append(row, p.or(format.Missing, "-"))
			} else {
				row = append(row, format.Measured(figure))
			}
		}
		rows = append(rows, row)
	}
	p.heading("Extracted values")
	p.table("lrrrrrrrr", rows)
}
