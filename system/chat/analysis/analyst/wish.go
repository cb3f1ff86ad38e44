package analyst

import (
	"context"
	"fmt"

	"loadstone/system/chat"
)

// wish is a summary that a language model may write the text of.
type wish struct {
	stream int64
	next   uint64
	found  *stored
	texts  []string
}

// wish asks the model, if there is one. Where too many wait, the summary stays as it is.
func (a *Analyst) wish(w wish) {
	if a.cfg.Model == nil {
		return
	}
	select {
	case a.wishes <- w:
	default:
		a.metrics.shed.Inc()
	}
}

// grant has the model write, one summary after the other, until ctx ends.
func (a *Analyst) grant(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-a.wishes:
			if err := a.write(ctx, w); err != nil && ctx.Err() == nil {
				a.report(fmt.Errorf("summarise stream %d: %w", w.stream, err))
			}
		}
	}
}

func (a *Analyst) write(ctx context.Context, w wish) error {
	text, err := a.cfg.Model.Summarise(ctx, w.texts)
	if err != nil {
		return err
	}
	with := &stored{w.found.From, w.found.Offsets, text}
	if err := a.cfg.Log.StoreNotes(w.stream, []chat.Note{{Topic: chat.NoteSummary, Number: w.next, Value: encode(with)}}); err != nil {
		return err
	}
	told, err := tell(a.cfg.Log, w.stream, w.next, with)
	if err != nil {
		return err
	}
	a.cfg.Announce(w.stream, encode(told))
	return nil
}
