package reconcile

import (
	"context"
	"fmt"
	"time"

	"loadstone/block/pause"
	"loadstone/system/chat"
	"loadstone/system/chat/reconcile/ledger"
)

// Kept is where messages are kept for good, beside the log.
type Kept interface {
	// Newest are the newest messages of a stream before a time, the newest first.
	Newest(ctx context.Context, stream int64, before time.Time, most int) ([]chat.Raw, error)
}

const (
	keptPage  = 1000
	keptPause = time.Second
)

// keeps waits until all of a stream's log is kept, or ctx ends, and compares the two.
func (r *reconciler) keeps(ctx context.Context, stream int64, log []chat.Message) error {
	if len(log) == 0 {
		return nil
	}
	all := ledger.NewKept(log)
	for {
		from, missing := all.Missing()
		if !missing {
			from = log[0].At // all of it once more: what is there twice
		}
		err := r.readKept(ctx, stream, from, all)
		if !missing && err == nil {
			break
		}
		if !pause.For(ctx, keptPause) { // it may be behind, or just have been killed
			if err != nil {
				return fmt.Errorf("read what is kept: %w", err)
			}
			break
		}
	}
	r.books.CheckKept(stream, all)
	return nil
}

// readKept reads what is kept of a stream from a time on, in milliseconds.
func (r *reconciler) readKept(ctx context.Context, stream, from int64, all *ledger.Kept) error {
	const far = 1 << 52 // milliseconds, later than anything
	for before := int64(far); ; {
		page, err := r.cfg.Kept.Newest(ctx, stream, time.UnixMilli(before), keptPage)
		if err != nil {
			return err
		}
		for i := range page {
			all.Read(&page[i])
		}
		if len(page) < keptPage {
			return nil
		}
		last := page[len(page)-1].At
		if last < from || last+1 >= before {
			return nil
		}
		before = last + 1 // others of the same millisecond may be on the next page
	}
}
