package summary

import "loadstone/lab/load/roundtrip"

// far has how long iterations take over phones' networks.
func (s *Summary) far(p *page) {
	header := []string{""}
	for _, rtt := range roundtrip.Phones() {
		header = append(header, p.milliseconds(float64(rtt.Milliseconds())), "newly connected")
	}
	rows := [][]string{header}
	for i := range s.Journeys {
		j := &s.Journeys[i]
		row := []string{p.clean(j.Scenario)}
		for _, at := range j.Computed {
			row = append(row, p.milliseconds(at.Open), p.milliseconds(at.New))
		}
		if len(row) == len(header) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 1 {
		return
	}
	p.heading("Iterations over a phone's network, computed")
	p.table("lrrrr", rows)
	p.line("  an average iteration, with the answer times of this load, at that round trip")
	p.line("  and 9 Mbit/s, without pauses")
}
