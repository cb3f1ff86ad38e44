package scaling

import (
	"strings"
	"testing"
)

// A size is a quotient, 0.3/0.1 for one, and is not written with the error of
// its last bit.
func TestReasonWritesSizesAsPeopleDo(t *testing.T) {
	t.Parallel()
	small, large := 0.1, 0.3
	n := large / small
	points := []Point{{N: 1, X: 100}, {N: 2, X: 200}, {N: n, X: 900}}
	f := fitness(points, 1, 2, func(n float64) float64 { return 100 * n })
	if f.Good || !strings.HasSuffix(f.Reason, "at size 3") {
		t.Errorf("got %q for the size %v", f.Reason, n)
	}
}
