package stats

// Falling is the chance that as many pairs of values fall as do in these series, or more,
// if nothing but chance orders each of them: the exact test of Mann and Kendall, one-sided,
// over series that are independent of each other. A tie counts against a fall. It is 1
// without a pair.
func Falling(series ...[]float64) (p float64) {
	rising, dist := 0, []float64{1} // the chance of each number of pairs that do not fall
	for _, xs := range series {
		for i, x := range xs {
			for _, before := range xs[:i] {
				if x >= before {
					rising++
				}
			}
			// The value is at each of the i+1 ranks among those so far alike.
			next := make([]float64, len(dist)+i)
			for n, chance := range dist {
				for rank := range i + 1 {
					next[n+rank] += chance / float64(i+1)
				}
			}
			dist = next
		}
	}
	return min(1, cumulative(dist)[rising])
}
