package analysis

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/archive"
	"loadstone/lab/topology"
)

// mixedNetworks warns of variants of which some have a network for each instance and
// others loopback addresses: a packet costs more CPU in the former, so that a difference
// between the two is not the system's alone.
func mixedNetworks(trials []archive.Trial) []string {
	var own, loopback []string
	for i := range trials {
		t := &trials[i]
		if len(t.Instances) == 0 {
			continue
		}
		which := &loopback
		if slices.ContainsFunc(t.Instances, func(in topology.Instance) bool { return in.OwnNetwork }) {
			which = &own
		}
		if !slices.Contains(*which, t.Variant) {
			*which = append(*which, t.Variant)
		}
	}
	if len(own) == 0 || len(loopback) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("each instance of %s had a network of its own and those of %s had loopback addresses, where a packet costs less CPU: that is part of the difference between them; write x-network: own (or loopback) at the top of the Compose file, so that all have the same",
		strings.Join(own, ", "), strings.Join(loopback, ", "))}
}
