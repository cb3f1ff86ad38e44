package results

import (
	"context"
	"fmt"
	"strings"

	"loadstone/block/dataset"
)

// madeUp begins the fingerprint of what a Generator makes.
const madeUp = "generator "

// MadeUp reports whether the students of a data set are a Generator's.
func MadeUp(meta dataset.Meta) bool { return strings.HasPrefix(meta.Fingerprint, madeUp) }

// Each is dataset.Each for students that are valid, and fails on the first that is not:
// what all builders have in common.
func Each(ctx context.Context, source dataset.Source[Student], progress dataset.Progress, put func(*Student) error) error {
	return dataset.Each(ctx, source, progress, func(s *Student) error {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("student with id %d is not valid: %w", s.ID, err)
		}
		return put(s)
	})
}
