package results_test

import (
	"testing"

	"go.uber.org/goleak"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGeneratorIsASource(t *testing.T) {
	t.Parallel()
	const count = 7000
	generator := resultstest.Generator(t, 8, count)
	want := map[int64]results.Student{}
	for id := int64(1); id <= count; id++ {
		want[id] = generator.Student(id)
	}
	resultstest.Source(t, generator, want)
}
