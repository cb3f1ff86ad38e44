package cputime_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/cputime"
)

// TestOf counts work and not waiting, whoever else is at work.
func TestOf(t *testing.T) {
	t.Parallel()
	if waited := cputime.Of(func() { time.Sleep(200 * time.Millisecond) }); waited > 100*time.Millisecond {
		t.Errorf("waiting for 200 ms took %v of CPU time", waited)
	}
	var others sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		others.Go(func() {
			for !stop.Load() {
			}
		})
	}
	began := time.Now()
	var worked time.Duration
	rounds := 0
	for worked < 50*time.Millisecond && time.Since(began) < time.Minute {
		worked += cputime.Of(func() { work(1_000_000) })
		rounds++
	}
	stop.Store(true)
	others.Wait()
	if wall := time.Since(began); worked > wall || worked < 50*time.Millisecond {
		t.Errorf("%d rounds took %v of CPU time in %v", rounds, worked, wall)
	}
}

// TestSampler adds up what all pieces took, of which it measures few.
func TestSampler(t *testing.T) {
	t.Parallel()
	const pieces, tries = 20_000, 5
	for try := 1; ; try++ {
		var sampled time.Duration
		samples := 0
		s := cputime.NewSampler(func(seconds float64) {
			samples++
			sampled += time.Duration(seconds * float64(time.Second))
		})
		whole := cputime.Of(func() {
			for range pieces {
				s.Do(func() { work(20_000) })
			}
		})
		if want := pieces / cputime.Every; samples < want/2 || samples > want*2 {
			t.Errorf("%d of %d pieces were measured, want about %d", samples, pieces, want)
		}
		if sampled >= whole/2 && sampled <= whole*2 {
			return
		}
		if try == tries { // a piece that was measured may have been slow, and counts as many
			t.Fatalf("%v were added up of %v", sampled, whole)
		}
	}
}

// made is what work made, or the compiler would see that nobody wants it.
var made atomic.Int64

func work(n int) {
	x := int64(0)
	for i := range int64(n) {
		x ^= i * i
	}
	made.Store(x)
}

// BenchmarkSampler is what counting costs each piece.
func BenchmarkSampler(b *testing.B) {
	s := cputime.NewSampler(func(float64) {})
	for b.Loop() {
		s.Do(func() {})
	}
}

// BenchmarkOf is what it would cost to measure each.
func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		cputime.Of(func() {})
	}
}
