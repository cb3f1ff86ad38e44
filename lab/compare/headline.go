package compare

import (
	"fmt"

	"loadstone/lab/stats"
)

// Headline is what was found, in a few words without a full stop: how much
// changed for the better and the worse, or that nothing did, or why that is not
// known. All forms begin with it.
func (d *Difference) Headline() string {
	better, worse, told, few := 0, 0, 0, 0
	for _, t := range d.Tables {
		for _, r := range t.Rows {
			switch {
			case r.Change == stats.Better:
				better++
			case r.Change == stats.Worse:
				worse++
			case r.Result != nil && r.Result.Outcome == stats.TooFew:
				few++
			case r.Result != nil:
				told++
			}
		}
	}
	switch {
	case better+worse > 0:
		return fmt.Sprintf("%d better, %d worse", better, worse)
	case told > 0 && few > 0:
		return "No difference was found where there are enough trials to tell"
	case told > 0:
		return "No difference was found"
	case few > 0: // not even a large difference would have been found
		return "There are too few trials to tell"
	default:
		return "Nothing could be compared"
	}
}
