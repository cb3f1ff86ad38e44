package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loadstone/lab/host/packets"
	"loadstone/lab/verdict"
)

// exchange is a request to one of two services, in seconds from the begin.
type exchange struct{ asked, answered float64 }

// queue has requests arrive as they do from many users, pass a proxy that takes a while for
// each, and wait for one of a server's slots.
func queue(rate, seconds, proxy, each float64, slots int) (atProxy, atServer []exchange) {
	random := rand.New(rand.NewPCG(1, uint64(slots)))
	free := make([]float64, slots)
	for at := 0.0; at < seconds; at += random.ExpFloat64() / rate {
		asked := at + proxy/2
		i := slices.Index(free, slices.Min(free))
		free[i] = max(asked, free[i]) + each
		atServer = append(atServer, exchange{asked, free[i]})
		atProxy = append(atProxy, exchange{at, free[i] + proxy/2})
	}
	return atProxy, atServer
}

// cut is what is seen of exchanges in slices of a fifth of a second.
func cut(from time.Time, seconds float64, on map[string][]exchange) []packets.Slice {
	const length = 0.2
	out := slicesOf(from, int(seconds/length))
	for i := range out {
		began, ended := float64(i)*length, float64(i+1)*length
		for server, all := range on {
			client := "proxy-1"
			if server == "127.77.1.2:80" {
				client = ""
			}
			h := hop(client, server, 0, 0)
			for _, x := range all {
				if x.answered >= began && x.answered < ended {
					h.Exchanges++
				}
				h.InFlight += time.Duration(max(0, min(x.answered, ended)-max(x.asked, began)) * float64(time.Second))
			}
			out[i].Hops = append(out[i].Hops, h)
		}
	}
	return out
}

// Slots that nobody declared are found by how long requests take at a tenth of the capacity and
// at it: a proxy takes 41 ms for each, which nothing changes, and the server behind it works on
// a few at a time.
func TestHiddenSlotsAreCounted(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		slots int
		each  float64 // s
		use   float64 // of the slots, at the capacity
	}{{4, 0.020, 0.95}, {4, 0.020, 0.99}, {1, 0.002, 0.95}, {2, 0.1, 0.95}, {16, 0.010, 0.98}} {
		capacity := c.use * float64(c.slots) / c.each
		seen := func(rate, seconds float64) passages {
			atProxy, atServer := queue(rate, seconds, 0.041, c.each, c.slots)
			all := cut(from, seconds, map[string][]exchange{"127.77.1.2:80": atProxy, "127.77.1.3:8080": atServer})
			return passagesIn(all, proxied(), "proxy", from.Add(time.Second), from.Add(time.Duration(seconds)*time.Second))
		}
		trial := observed{atCapacity: seen(capacity, 20), light: seen(capacity/10, 6)}
		_, waits := hopsOf([]observed{trial})
		v := verdict.Evaluate(verdict.Input{Capacity: capacity, Waits: waits, Components: []verdict.Component{{Name: "proxy", LimitCPUs: 1}, {Name: "server", LimitCPUs: 1}}})
		if v.Status != verdict.Undecided || v.Located == nil || v.Located.Component != "server" {
			t.Errorf("%+v: got %s, located %+v of %+v, want server", c, v.Status, v.Located, waits)
			continue
		}
		if off := v.Located.AtOnce/float64(c.slots) - 1; math.Abs(off) > 0.2 {
			t.Errorf("%+v: got %.2f slots", c, v.Located.AtOnce)
		}
		proxy := waits[slices.IndexFunc(waits, func(w verdict.Wait) bool { return w.Component == "proxy" })]
		if math.Abs(proxy.MS-41) > 4 || math.Abs(proxy.LightMS-41) > 4 {
			t.Errorf("%+v: the proxy's own time is %.1f and %.1f ms, want 41", c, proxy.LightMS, proxy.MS)
		}
	}
}
