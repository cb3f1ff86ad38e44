package book

import (
	"context"
	"fmt"
	"time"

	"loadstone/block/pause"
)

// shelf is the made-up source. A book follows from its id, and fetching one takes
// the delay.
type shelf struct{ delay time.Duration }

func (s shelf) read(ctx context.Context, id int64) ([]byte, error) {
	if !pause.For(ctx, s.delay) {
		return nil, fmt.Errorf("fetch book %d: %w", id, ctx.Err())
	}
	const firstYear, years = 1900, 120
	return fmt.Appendf(nil, `{"id":%d,"title":"Book %d","year":%d}`, id, id, firstYear+id%years), nil
}
