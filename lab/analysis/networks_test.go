package analysis

import (
	"strings"
	"testing"

	"loadstone/lab/archive"
	"loadstone/lab/topology"
)

func TestMixedNetworksAreNoticed(t *testing.T) {
	t.Parallel()
	trial := func(variant string, own bool) archive.Trial {
		return archive.Trial{Planned: archive.Planned{Variant: variant}, Instances: []topology.Instance{{Name: "api-1", OwnNetwork: own}}}
	}
	for _, own := range []bool{true, false} {
		if got := mixedNetworks([]archive.Trial{trial("a", own), trial("b", own)}); got != nil {
			t.Errorf("all the same (%v): got %q", own, got)
		}
	}
	got := mixedNetworks([]archive.Trial{trial("a", true), trial("b", false), trial("a", true)})
	if len(got) != 1 || !strings.HasPrefix(got[0], "each instance of a had a network of its own and those of b had loopback addresses") {
		t.Errorf("got %q", got)
	}
}
