package feedfile

import (
	"context"
	"fmt"
	"io"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// Write writes all posts of a desk as JSON lines, in ascending order of id; Open gives the same posts back.
// Progress may be nil.
func Write(ctx context.Context, w io.Writer, from feed.Desk, progress dataset.Progress) error {
	return from.Each(ctx, progress, func(e *feed.Entry) error {
		line, err := e.Line()
		if err != nil {
			return fmt.Errorf("write post %d: %w", e.ID, err)
		}
		_, err = w.Write(append(line, '\n'))
		return err
	})
}
