package replay

import (
	"context"
	"time"

	"loadstone/block/pause"
)

// Pace is how fast to play: Speed seconds of the video in one, or AtOnce.
type Pace struct {
	Speed  float64
	AtOnce bool
}

// Play calls show with each message from a time of the video on, when it is its turn, until
// the end of the log, an error, or the end of ctx.
func (r *Reader) Play(ctx context.Context, video int64, pace Pace, show func(*Message) error) error {
	if err := r.Find(video); err != nil {
		return err
	}
	began := time.Now()
	for {
		page, err := r.Next(pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			m := &page[i]
			if !pace.AtOnce {
				due := time.Duration(float64(m.Video-video) / pace.Speed * float64(time.Millisecond))
				if !pause.For(ctx, due-time.Since(began)) || ctx.Err() != nil {
					return ctx.Err()
				}
			}
			if err := show(m); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
