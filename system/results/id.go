package results

import (
	"fmt"

	"loadstone/block/dataset"
)

// MaxID is the largest id.
const MaxID = dataset.MaxID

// ParseID reads an id as dataset.ParseID does. The error wraps ErrMalformedID.
func ParseID[T ~string | ~[]byte](text T) (int64, error) {
	id, ok := dataset.ParseID(text)
	if !ok {
		return 0, malformed(text)
	}
	return id, nil
}

// malformed quotes at most 32 bytes, for the text comes from anywhere and the
// error goes to logs.
func malformed[T ~string | ~[]byte](text T) error {
	const quoted = 32
	if len(text) > quoted {
		return fmt.Errorf("id %q... (%d bytes): %w", string(text[:quoted]), len(text), ErrMalformedID)
	}
	return fmt.Errorf("id %q: %w", string(text), ErrMalformedID)
}
