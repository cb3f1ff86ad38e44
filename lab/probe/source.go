package probe

import (
	"context"
	"time"
)

// Source tells figures of an instance that has no Prometheus endpoint of its own,
// such as a broker that is asked in its own protocol.
type Source struct {
	// Instance is whose scrapes they become.
	Instance string
	// Read asks once. Its values are named as a Scrape's. An error is a gap: what
	// is not known is never written as a zero.
	Read func(ctx context.Context) (map[string]float64, error)
}

const (
	// sourceInterval is the time between two questions. One costs several round
	// trips and what is asked has to add up over all its clients, so there are
	// fewer than scrapes.
	sourceInterval = time.Second
	// sourceTimeout bounds one question. An answer that takes longer than the
	// interval would be of a moment that nobody can name.
	sourceTimeout = time.Second
)

// ask asks one source until ctx ends. A question that takes longer than the
// interval delays the next one, so there is never more than one under way.
func ask(ctx context.Context, s Source, records chan<- any) error {
	tick := time.NewTicker(sourceInterval)
	defer tick.Stop()
	for {
		if values, err := s.within(ctx, sourceTimeout); err == nil {
			select {
			case records <- &Scrape{At: time.Now(), Instance: s.Instance, Values: values}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (s Source) within(ctx context.Context, limit time.Duration) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.Read(ctx)
}
