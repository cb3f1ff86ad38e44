package analyst

import (
	"context"
	"fmt"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
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
	said, err := a.cfg.Model.Summarise(ctx, w.texts)
	if err != nil {
		return err
	}
	with := &stored{w.found.From, w.found.Offsets, said}
	if err := a.cfg.Log.StoreNotes(w.stream, []chat.Note{{Topic: chat.NoteSummary, Number: w.next, Value: encode(with)}}); err != nil {
		return err
	}
	told, err := tell(a.cfg.Log, w.stream, w.next, with)
	if err != nil {
		return err
	}
	select {
	case a.texts <- text{w.stream, told}:
	case <-ctx.Done():
	}
	return nil
}

// text is a summary with a model's text.
type text struct {
	stream int64
	told   *Summary
}

// written has viewers told of a text, unless there is a newer summary: they have that one, or
// will have it. It is for Run, which tells them of all summaries, one after the other.
func (a *Analyst) written(t text, changed map[int64]*news) error {
	s := a.states[t.stream]
	if s == nil {
		var err error
		if s, err = loadState(a.cfg.Log, t.stream); err != nil {
			return fmt.Errorf("tell of a text of stream %d: %w", t.stream, err)
		}
	}
	waits := changed[t.stream]
	switch {
	case t.told.Next < s.Next-s.Next%analysis.SummaryEvery:
	case waits != nil && waits.summary != nil:
		waits.summary = t.told
	default:
		a.cfg.Announce(t.stream, encode(t.told))
	}
	return nil
}
