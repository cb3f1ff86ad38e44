package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis/corpus"
	"loadstone/system/chat/logstore"
)

// mostInvented bounds the messages of an invented stream.
const mostInvented = 1_000_000

// inventMessages has so many messages said in each of the streams that is live, and ends every
// second one of them. Those that were said before are not said again.
func inventMessages(ctx context.Context, log *logstore.Log, streams []chat.Stream, count int) error {
	for i := range streams {
		s, err := log.Stream(streams[i].ID)
		if err != nil {
			return err
		}
		if !s.Live() {
			continue
		}
		all := corpus.Invent(&s, count)
		if err := sayAll(ctx, log, s.ID, all); err != nil {
			return fmt.Errorf("messages of stream %d: %w", s.ID, err)
		}
		if s.ID%2 == 0 {
			const credits = 10 * time.Second
			if err := log.EndStream(s.ID, time.UnixMilli(all[len(all)-1].At).UTC().Add(credits)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sayAll stores messages, so many at a time that none is refused.
func sayAll(ctx context.Context, log *logstore.Log, stream int64, all []chat.Message) error {
	const together = 256
	for len(all) > 0 {
		some := all[:min(together, len(all))]
		all = all[len(some):]
		done := make(chan error, len(some))
		for i := range some {
			if err := log.Say(&chat.Draft{Stream: stream, Message: some[i], Done: func(r *chat.Said) { done <- r.Err }}); err != nil {
				return err
			}
		}
		var errs []error
		for range some {
			errs = append(errs, <-done)
		}
		if err := errors.Join(append(errs, ctx.Err())...); err != nil {
			return err
		}
	}
	return nil
}
