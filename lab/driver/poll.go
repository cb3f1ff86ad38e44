package driver

import (
	"context"
	"time"
)

// Poll is how often to look whether an instance is ready.
type Poll struct {
	// Within is how long it may take. The last look begins within the time.
	Within time.Duration
	// First is the first pause between two looks; it doubles up to Last. Every, if
	// given, is each of them.
	First, Last time.Duration
	Every       *time.Duration
}

// Until looks until ready says yes, ended closes, the time is over or ctx ends,
// which is its error. It reports whether ready said yes.
func (p Poll) Until(ctx context.Context, ended <-chan struct{}, ready func(context.Context) bool) (bool, error) {
	over := time.NewTimer(p.Within)
	defer over.Stop()
	for pause := p.First; ; pause = min(2*pause, p.Last) {
		if p.Every != nil {
			pause = *p.Every
		}
		if ready(ctx) {
			return true, nil
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
			continue
		case <-ended:
		case <-over.C:
		case <-ctx.Done():
			next.Stop()
			return false, context.Cause(ctx)
		}
		next.Stop()
		return false, nil
	}
}
