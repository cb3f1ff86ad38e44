package dataset

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
)

// generateChunk is how many records a worker computes before handing them over: enough
// to make the hand-over cheap, little enough to start at once.
const generateChunk = 2048

// Generate yields the records 1 to count, each computed by record from its number alone,
// in ascending order. It is All of a source that is made up.
//
// Workers, one per core, compute chunks ahead of the consumer: worker w makes
// the chunks w, w+workers, w+2*workers and so on and offers them on its own
// channel, and the consumer takes from the channels in turn. That keeps the
// order and bounds the work ahead to two chunks per worker. All workers have
// ended when the loop over Generate ends, however it ends.
func Generate[T any](ctx context.Context, count int64, record func(number int64) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		workers := int64(runtime.GOMAXPROCS(0))
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()

		chunks := make([]chan []T, workers)
		for w := range workers {
			out := make(chan []T, 1)
			chunks[w] = out
			running.Go(func() {
				defer close(out)
				generate(ctx, share{1 + w*generateChunk, workers * generateChunk, count}, record, out)
			})
		}
		for next := int64(0); ; next++ {
			chunk, more := <-chunks[next%workers]
			if !more {
				break
			}
			for i := range chunk {
				if !yield(chunk[i], nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			var none T
			yield(none, fmt.Errorf("generate records: %w", err))
		}
	}
}

// share is what one worker makes: the chunks that start at first, first+stride and so
// on, up to last.
type share struct{ first, stride, last int64 }

// generate offers the chunks of a share until the last record or the end of the
// context.
//
// Three buffers take turns. Out holds one chunk, so a chunk goes in only after
// the consumer took the one before, and with that finished the one before that:
// the oldest of the three is free again.
func generate[T any](ctx context.Context, n share, record func(int64) T, out chan<- []T) {
	var buffers [3][]T
	for turn := 0; n.first <= n.last; turn++ {
		buffer := &buffers[turn%len(buffers)]
		chunk := (*buffer)[:0]
		for number := n.first; number < n.first+generateChunk && number <= n.last; number++ {
			chunk = append(chunk, record(number))
		}
		*buffer = chunk
		select {
		case out <- chunk:
		case <-ctx.Done():
			return
		}
		n.first += n.stride
	}
}
