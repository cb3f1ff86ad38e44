package snapshot

import (
	"context"
	"path/filepath"
	"testing"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// BenchmarkSnapshotLookup looks up students in a scattered order, so that it
// pays for cache misses as a server does. It must not allocate.
func BenchmarkSnapshotLookup(b *testing.B) {
	const count = 100_000
	path := filepath.Join(b.TempDir(), "results.snapshot")
	build(b, path, resultstest.Generator(b, 1, count))
	snapshot := open(b, path)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		ctx := context.Background()
		for id := int64(1); p.Next(); id = (id+61_803)%count + 1 {
			if _, err := snapshot.Lookup(ctx, id); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkBuild measures one student on the way from the generator into a
// snapshot on disk, made durable.
func BenchmarkBuild(b *testing.B) {
	path := filepath.Join(b.TempDir(), "results.snapshot")
	b.ReportAllocs()
	build(b, path, resultstest.Generator(b, 1, int64(b.N)))
}

// BenchmarkOpen measures the check of a whole data set, which a server does at
// its start and for every new file.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "results.snapshot")
	build(b, path, resultstest.Generator(b, 1, results.DefaultCount))
	for b.Loop() {
		if _, err := Follow(path, DefaultConfig()); err != nil {
			b.Fatal(err)
		}
	}
}
