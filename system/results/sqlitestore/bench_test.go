package sqlitestore

import (
	"context"
	"path/filepath"
	"testing"

	"loadstone/system/results/resultstest"
)

// BenchmarkSQLiteLookup looks up students in a scattered order: the query, the
// scan and the encoding, under a context that can end, as a server's does, and
// under one that cannot.
func BenchmarkSQLiteLookup(b *testing.B) {
	const count = 100_000
	path := filepath.Join(b.TempDir(), "results.db")
	build(b, path, resultstest.Generator(b, 1, count))
	store := open(b, path)
	for name, ctx := range map[string]context.Context{
		"cancellable": b.Context(), "endless": context.WithoutCancel(b.Context()),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for id := int64(1); p.Next(); id = (id+61_803)%count + 1 {
					if _, err := store.Lookup(ctx, id); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkBuild measures one student on the way from the generator into a
// database on disk, made durable.
func BenchmarkBuild(b *testing.B) {
	path := filepath.Join(b.TempDir(), "results.db")
	b.ReportAllocs()
	build(b, path, resultstest.Generator(b, 1, int64(b.N)))
}

// BenchmarkScan measures one student on the way out, as publishing reads them.
func BenchmarkScan(b *testing.B) {
	path := filepath.Join(b.TempDir(), "results.db")
	build(b, path, resultstest.Generator(b, 1, int64(b.N)))
	store := open(b, path)
	b.ReportAllocs()
	b.ResetTimer()
	for _, err := range store.All(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
	}
}
