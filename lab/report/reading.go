package report

import (
	"fmt"
	"strconv"

	"loadstone/lab/format"
	"loadstone/lab/result"
)

// fewTrials is how many trials there were, as the beginning of a sentence: "1
// trial of each is", "2 trials of each are".
func fewTrials(r *result.Result) string {
	few := 0
	for i := range r.Variants {
		n := r.Variants[i].Trials
		if few != 0 && n != few {
			return "so few trials are"
		}
		few = n
	}
	if few == 1 {
		return "1 trial of each is"
	}
	return strconv.Itoa(few) + " trials of each are"
}

// tildeMeans says what "~" stands for in this run.
func tildeMeans(r *result.Result) string {
	test := "rank test"
	switch n := len(r.Comparisons); {
	case n > 0 && r.Comparisons[0].Joint:
		test = "Tukey's test of all pairs of variants, by round"
	case n > 1:
		test += ", corrected for " + format.Plural(n, "comparison")
	}
	if n := r.TrialsNeeded(); n > 0 {
		return fmt.Sprintf("%s too few to show a difference, it takes %d (%s).", fewTrials(r), n, test)
	}
	return "no difference was shown (" + test + ")."
}
