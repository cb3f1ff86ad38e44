package rediscache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/block/cache"
)

// Preload fills Redis before anybody asks, by pipelines over several connections. What is
// there under its keys is replaced. All fields are required but Username, Password, Jitter
// and Seed.
type Preload struct {
	// Addr, Username, Password and Prefix are those of the tier.
	Addr, Username, Password, Prefix string
	// Born is when the items' ages begin, in the past or to come.
	Born time.Time
	// Life is how old they get: the cache's MaxAge, or less. Each gets less old by up to
	// the share Jitter, in [0, 1), drawn from Seed, or all would expire at the same moment.
	Life   time.Duration
	Jitter float64
	Seed   uint64
	// Parallel batches of Batch items are under way at one time.
	Parallel, Batch int
	// Timeout bounds one batch.
	Timeout time.Duration
	// Progress is called after each batch with the number of items that are written, by
	// one goroutine at a time.
	Progress func(written int64)
}

// DefaultPreload returns a preload of items that are born now, with numbers that were
// measured: see BenchmarkPreload.
func DefaultPreload(tier Config, life time.Duration) Preload {
	return Preload{
		Addr: tier.Addr, Username: tier.Username, Password: tier.Password, Prefix: tier.Prefix, Born: time.Now(), Life: life,
		// Two keep Redis's one thread busy while the other is being filled. 512
		// items of a kB are what its buffers like to hold.
		Parallel: 2, Batch: 512,
		// A batch takes milliseconds; Redis may be forking a snapshot of all.
		Timeout:  30 * time.Second,
		Progress: func(int64) {},
	}
}

// Entry is one value to preload.
type Entry struct {
	Key   string
	Value []byte // as Shared.Encode makes it; not modified, and used until the batch is done
}

// Validate returns all problems of the configuration, joined, or nil.
func (p Preload) Validate() error {
	var errs []error
	unless := func(fine bool, format string, args ...any) {
		if !fine {
			errs = append(errs, fmt.Errorf("preload: "+format, args...))
		}
	}
	unless(p.Addr != "" && p.Prefix != "", "there is no address or no prefix")
	unless(p.Life >= time.Second, "life is %v, must be at least 1s", p.Life)
	unless(p.Jitter >= 0 && p.Jitter < 1, "jitter is %v, must be at least 0 and less than 1", p.Jitter)
	unless(p.Parallel >= 1 && p.Batch >= 1, "parallel and batch are %d and %d, must be at least 1", p.Parallel, p.Batch)
	unless(p.Timeout > 0, "timeout is %v, must be positive", p.Timeout)
	unless(p.Progress != nil, "the function for progress is missing")
	return errors.Join(errs...)
}

// Run writes all entries and returns how many it has written. With an error, of Redis or
// of entries, those are in Redis all the same.
func (p Preload) Run(ctx context.Context, entries iter.Seq2[Entry, error]) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	run := &preloading{Preload: p, batches: make(chan []Entry)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return run.cut(ctx, entries) })
	for i := range p.Parallel {
		group.Go(func() error { return run.work(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i)))) })
	}
	err := group.Wait()
	return run.written, err
}

// preloading is one run.
type preloading struct {
	Preload

	batches chan []Entry

	mu      sync.Mutex
	written int64
}

// cut makes batches of the entries.
func (p *preloading) cut(ctx context.Context, entries iter.Seq2[Entry, error]) error {
	defer close(p.batches)
	batch := make([]Entry, 0, p.Batch)
	send := func() error {
		select {
		case p.batches <- batch:
			batch = make([]Entry, 0, p.Batch)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for entry, err := range entries {
		if err != nil {
			return fmt.Errorf("preload: next entry: %w", err)
		}
		if batch = append(batch, entry); len(batch) == p.Batch {
			if err := send(); err != nil {
				return err
			}
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return send()
}

// work writes batches over a connection of its own.
func (p *preloading) work(ctx context.Context, random *rand.Rand) (err error) {
	line, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, line.conn.Close()) }()
	// The end of ctx ends what waits for the network.
	unblock := context.AfterFunc(ctx, func() { _ = line.conn.SetDeadline(time.Unix(1, 0)) })
	defer unblock()
	for batch := range p.batches {
		if err := p.write(ctx, line, batch, random); err != nil {
			return fmt.Errorf("preload: write a batch: %w", err)
		}
	}
	return nil
}

func (p *preloading) write(ctx context.Context, line *pipeline, batch []Entry, random *rand.Rand) error {
	head := encode(cache.Item{Kind: cache.Present, Born: p.Born.UnixMicro()})
	ahead := time.Until(p.Born).Milliseconds()
	for _, e := range batch {
		life := max(1, ahead+int64(float64(p.Life.Milliseconds())*(1-p.Jitter*random.Float64())))
		line.begin(5)
		line.arg("SET", "")
		line.arg(p.Prefix, e.Key)
		line.argBytes(head, e.Value)
		line.arg("PX", "")
		line.arg(strconv.FormatInt(life, 10), "")
	}
	if err := line.send(ctx); err != nil {
		return err
	}
	for range batch {
		if err := line.reply(); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += int64(len(batch))
	p.Progress(p.written)
	return nil
}
