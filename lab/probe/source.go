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
	// Whole says that they are those of all instances of its service, as of a cluster.
	Whole bool
	// Read asks once. Its values are as a Scrape's. An error is a gap: what is not known
	// is never written as a zero.
	Read func(ctx context.Context) (map[string]float64, error)
}

const (
	// sourceInterval is the time between two questions. One costs several round
	// trips and what is asked has to add up over all its clients, so there are
	// fewer than scrapes.
	sourceInterval = time.Second
	// sourceTimeout bounds one question. What has a part of a CPU and its queues
	// full, of which it is to tell, takes seconds to answer. The Scrape says how many.
	sourceTimeout = 10 * time.Second
)

// ask asks one source until ctx ends. There is never more than one question under way,
// and one that takes more than half the interval is followed by a pause as long.
func ask(ctx context.Context, s Source, records chan<- any) error {
	for {
		began := time.Now()
		values, err := s.within(ctx, sourceTimeout)
		took := time.Since(began)
		if err == nil {
			select {
			case records <- &Scrape{At: began.Add(took), Took: took, Instance: s.Instance, Whole: s.Whole, Values: values}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-time.After(max(sourceInterval-took, took)):
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
