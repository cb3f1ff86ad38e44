package analysis

import (
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/fault"
	"loadstone/lab/topology"
)

// TestReplicasThatStartCost: they run and do not answer as yet, be it that they were not
// wanted any more before they did.
func TestReplicasThatStartCost(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	s := autoscaled{service: "api", instances: []fault.Affected{
		{Name: "api-2", Done: at(0), Undone: at(2)}, // and was stopped
		{Name: "api-2", Done: at(4), Undone: at(6), Ready: at(8)},
		{Name: "api-2", Done: at(10)},
	}}
	trial := archive.Trial{Instances: []topology.Instance{{Name: "api-1", Service: "api"}, {Name: "api-2", Service: "api"}, {Name: "db-1", Service: "db"}}}
	for second, want := range map[int][2]int{1: {1, 1}, 3: {1, 2}, 5: {1, 1}, 7: {1, 2}, 9: {2, 2}, 11: {1, 1}} {
		if answering, running := s.replicas(trial, at(second)); answering != want[0] || running != want[1] {
			t.Errorf("at %d s %d answer and %d run, want %v", second, answering, running, want)
		}
	}
}
