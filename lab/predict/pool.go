package predict

import (
	"fmt"
	"slices"

	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// A pool is a station beside the CPU of its component: so many slots of each
// instance, each held as long as it was where it was measured. Little's law gives
// the holding time: slots in use, divided by throughput. It covers all that is
// waited for meanwhile, so it would change with what stands behind the pool, and
// the model keeps it.

// pools makes stations of a component's pools. A pool of which size or holding
// time is not known is left out.
func (s *System) pools(c verdict.Component, figures []result.Figure) {
	for _, r := range c.Resources {
		if r.Kind != verdict.Pool || !(r.Capacity >= 1) || !(r.DemandMS > 0) {
			continue
		}
		st := queueing.Pool(poolName(c.Name, r.Name), queueing.Known(r.DemandMS/1000), max(1, c.Instances), int(r.Capacity))
		var held []float64
		for _, f := range figures {
			for _, o := range f.Components {
				i := slices.IndexFunc(o.Resources, func(x verdict.Resource) bool { return x.Name == r.Name && x.DemandMS > 0 })
				if o.Name == c.Name && i >= 0 {
					held = append(held, o.Resources[i].DemandMS/1000)
				}
			}
		}
		if len(held) > 0 {
			st.Demand = stats.Median(held)
		}
		if r.Bound > 0 { // of the hottest instance
			st.Skew = min(max(1, float64(st.Instances*st.Servers)/(r.Bound*r.DemandMS/1000)), float64(st.Instances))
		}
		s.Model.Stations = append(s.Model.Stations, st)
		s.component[st.Name] = c.Name
	}
}

func poolName(component, pool string) string { return component + " pool " + pool }

// hasPool says whether a verdict's limit is a pool that is in the model.
func (s *System) hasPool(l verdict.Limit) bool {
	_, ok := s.component[poolName(l.Component, l.Name)]
	return ok && l.Resource == verdict.Pool
}

// resource is a station in words: "api CPU", "api pool connections".
func (s *System) resource(station string) string {
	if _, pool := s.component[station]; pool {
		return station
	}
	return station + " CPU"
}

// componentOf is the component that a station is of.
func (s *System) componentOf(station string) string {
	if c, pool := s.component[station]; pool {
		return c
	}
	return station
}

// changes are those of the model: more replicas have more pools.
func (s *System) changes(cs []Change) []queueing.Change {
	var out []queueing.Change
	for _, c := range cs {
		out = append(out, queueing.Change{Station: c.Service, Instances: c.Replicas, CPUs: s.usable(c)})
		if c.Replicas == nil {
			continue
		}
		for _, st := range s.Model.Stations {
			if st.Pool && s.component[st.Name] == c.Service {
				out = append(out, queueing.Change{Station: st.Name, Instances: c.Replicas})
			}
		}
	}
	return out
}

// describePool is a pool's size: "3 × 10 slots".
func describePool(st queueing.Station) string {
	return fmt.Sprintf("%d × %d slots", st.Instances, st.Servers)
}
