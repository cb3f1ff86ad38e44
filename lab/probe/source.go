package probe

import (
	"context"
	"math/rand/v2"
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
	// sourceInterval is the time between two questions, on average. One costs several round
	// trips and what is asked has to add up over all its clients, so there are
	// fewer than scrapes.
	sourceInterval = time.Second
	// sourceTimeout bounds one question. What has a part of a CPU and its queues
	// full, of which it is to tell, takes seconds to answer. The Scrape says how many.
	sourceTimeout = 10 * time.Second
)

// ask asks one source until ctx ends, at intervals from half to one and a half of sourceInterval: questions
// in step with what a system does every so often would see it at one moment of that all the time or, worse, at
// one that creeps, which looks like growth. There is never more than one question under way,
// and one that takes more than half its interval is followed by a pause as long.
func ask(ctx context.Context, s Source, records chan<- any) error {
	random := rand.New(rand.NewPCG(1, 2)) // that it is the same each time does not matter
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
		interval := time.Duration((0.5 + random.Float64()) * float64(sourceInterval))
		select {
		case <-time.After(max(interval-took, took)):
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
