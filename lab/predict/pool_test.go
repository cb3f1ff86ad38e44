package predict

import (
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// withPool gives each instance of api a pool of 4 slots, each held for 4 ms by a
// request: two instances sustain 2,000 req/s of it, and 1,000 req/s of CPU.
func withPool(r *result.Result) *result.Result {
	pool := verdict.Resource{Name: "connections", Kind: verdict.Pool, Capacity: 4, DemandMS: 4, Bound: 2000}
	v := &r.Variants[0]
	v.Components[0].Resources = append(v.Components[0].Resources, pool)
	for i := range v.Figures {
		v.Figures[i].Components[0].Resources = append(v.Figures[i].Components[0].Resources, pool)
	}
	return r
}

func TestPoolThatSaturatesFirstIsTheLimit(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.02, seed: 3}
	without := of(t, derive(t, world.variant("v", 2, 6)), "v")
	with := of(t, withPool(derive(t, world.variant("v", 2, 6))), "v")
	if len(with.Services()) != 2 {
		t.Errorf("services %v: a pool is not one", with.Services())
	}
	const pool = "api pool connections"
	for _, c := range []struct {
		set         string
		pool        bool
		limit, next string
		most        float64
	}{
		{"lb.cpus=0.5", true, "api", pool, 1000},
		{"api.replicas=4", true, "api", pool, 2000}, // more replicas have more pools
		{"api.cpus=1", true, pool, "api", 2000},
		{"api.cpus=1", false, "api", "lb", 4000},
		{"api.replicas=40", true, "lb", "api", 8333},
	} {
		s := without
		if c.pool {
			s = with
		}
		a := ask(t, s, c.set)
		if a.Limit.Station != c.limit || a.Next == nil || a.Next.Station != c.next {
			t.Errorf("%s, pool %v: limited by %+v and then %+v, want %s and %s", c.set, c.pool, a.Limit, a.Next, c.limit, c.next)
		}
		if x := a.Capacity.Value; x > c.most || x < 0.85*c.most {
			t.Errorf("%s, pool %v: %.0f req/s predicted, want a little less than %.0f", c.set, c.pool, x, c.most)
		}
		var text strings.Builder
		if err := Text(&text, a); err != nil {
			t.Fatal(err)
		}
		want := "limit      " + c.limit
		if c.limit != pool {
			want += " CPU"
		}
		if !strings.Contains(text.String(), want+", at about ") || strings.Contains(text.String(), "4 slots") != c.pool && c.set != "api.replicas=4" {
			t.Errorf("%s, pool %v:\n%s", c.set, c.pool, text.String())
		}
	}
}
