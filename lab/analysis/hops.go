package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/format"
	"loadstone/lab/host/packets"
	"loadstone/lab/probe"
	"loadstone/lab/result"
	"loadstone/lab/topology"
	"loadstone/lab/verdict"
)

// theLoad is who asks the entry service and is none of the system.
const theLoad = ""

// arrow is who asks whom: services, or addresses of who is outside the file.
type arrow struct{ from, to string }

// passages are the exchanges of a span.
type passages struct {
	seconds float64
	lost    float64                // seconds that are left out, because packets were lost
	on      map[arrow]*packets.Hop // summed
	outside map[string]bool        // those asked that are no service
	// unknown is the part of the exchanges with services other than the entry, and with those
	// outside that a service asks, of which it is not known who asked.
	unknown float64
}

// readHops reads what a trial saw of its hops; nothing of an earlier version's.
func readHops(dir string) (slices []packets.Slice, err error) {
	err = archive.ReadLines(dir, probe.HopsFile, func(s packets.Slice) { slices = append(slices, s) })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return slices, err
}

// passagesIn adds up the slices that lie between from and to: one that reaches into other load
// would be mostly of that.
func passagesIn(all []packets.Slice, instances []topology.Instance, entry string, from, to time.Time) passages {
	p := passages{on: map[arrow]*packets.Hop{}, outside: map[string]bool{}}
	where := placesOf(instances)
	where.learn(all)
	var behind, unknown float64
	for _, s := range all {
		end := s.At.Add(time.Duration(s.Seconds * float64(time.Second)))
		if s.At.Before(from) || end.After(to) {
			continue
		}
		if s.Lost > 0 {
			p.lost += s.Seconds
			continue
		}
		p.seconds += s.Seconds
		for _, h := range s.Hops {
			a, ours, counts := where.arrow(&h)
			if !counts {
				continue
			}
			if !ours || a.to != entry {
				a.from = cmp.Or(a.from, where.only(a.to))
				behind += float64(h.Exchanges)
				if a.from == "" {
					unknown += float64(h.Exchanges)
				}
			}
			p.outside[a.to] = !ours
			if p.on[a] == nil {
				p.on[a] = &packets.Hop{}
			}
			sum := p.on[a]
			sum.Exchanges += h.Exchanges
			sum.InFlight += h.InFlight
			sum.Stalls += h.Stalls
			sum.Near += h.Near
		}
	}
	if behind > 0 {
		p.unknown = unknown / behind
	}
	return p
}

// places are where instances are.
type places struct {
	service map[string]string // by the instance's name
	at      map[netip.Addr]place
	// askers are, of a service or of who is outside, the services that ask it, as far as
	// connections could be told apart. Others ask who is outside as well, in strangers.
	askers    map[string][]string
	strangers map[string]bool
}

// learn finds out who asks whom at any time.
func (p *places) learn(all []packets.Slice) {
	for _, s := range all {
		for _, h := range s.Hops {
			switch a, ours, _ := p.arrow(&h); {
			case a.from != "" && !slices.Contains(p.askers[a.to], a.from):
				p.askers[a.to] = append(p.askers[a.to], a.from)
			case a.from == "" && !ours && !h.Unnamed:
				p.strangers[a.to] = true
			}
		}
	}
}

// only is the only one that asks a service, or somebody outside; empty if there are several, or
// none is known. A connection is told apart only some time after it was opened.
func (p *places) only(service string) string {
	if who := p.askers[service]; len(who) == 1 && !p.strangers[service] {
		return who[0]
	}
	return ""
}

// place is a service at an address.
type place struct {
	service string
	metrics uint16 // the port of these, where it serves nothing else; or 0
}

func placesOf(instances []topology.Instance) *places {
	out := &places{map[string]string{}, map[netip.Addr]place{}, map[string][]string{}, map[string]bool{}}
	for _, in := range instances {
		out.service[in.Name] = in.Service
		address, err := netip.ParseAddr(in.Host)
		if err != nil {
			continue
		}
		p := place{service: in.Service}
		if u, err := url.Parse(in.MetricsURL); err == nil && u.Port() != strconv.Itoa(in.Port) {
			n, _ := strconv.ParseUint(u.Port(), 10, 16) // 0 where there is none
			p.metrics = uint16(n)
		}
		out.at[address] = p
	}
	return out
}

// arrow is who asks whom in a hop, and whether who is asked is a service of the file. It does
// not count if it watches the system, or is nothing of it. Of one with somebody outside that is
// not told apart, that is so unless a service is known to ask there.
func (p *places) arrow(h *packets.Hop) (a arrow, ours, counts bool) {
	a = arrow{p.service[h.Client], h.Server.String()}
	asked, ours := p.at[h.Server.Addr()]
	if ours {
		a.to = asked.service
	}
	switch {
	case h.Client == packets.Watcher:
		return a, ours, false
	case ours:
		return a, true, asked.metrics == 0 || asked.metrics != h.Server.Port()
	}
	return a, false, a.from != "" || h.Unnamed && len(p.askers[a.to]) > 0
}

// stay is how long requests stay with one service.
type stay struct {
	visits, ownMS, callMS, calls float64
	callsTo                      string // whom most of the calls are to
}

// requests are those that the load made.
func (p *passages) requests() (n float64) {
	for a, h := range p.on {
		if a.from == theLoad && !p.outside[a.to] {
			n += float64(h.Exchanges)
		}
	}
	return n
}

// mostUnknown is the share of exchanges of which it need not be known whose they are.
const mostUnknown = 0.1

// unclear is why times cannot be worked out, although something was seen.
func (p *passages) unclear() string {
	if p.lost > p.seconds {
		return fmt.Sprintf("packets were lost in %s of the time that was read: this machine was too busy to read them", format.Percent(p.lost/(p.lost+p.seconds)))
	}
	if p.unknown <= mostUnknown {
		return ""
	}
	return fmt.Sprintf("%s of the exchanges behind the entry are on connections that are closed before it can be told whose they are", format.Percent(p.unknown))
}

// stays are those of everybody who was asked, for each request that the load made. While a
// message pauses for a delayed acknowledgement, who waits for the rest of it does nothing: that is
// nobody's own time. They are nil if the load was not seen, or too much of what is behind it not told apart.
func (p *passages) stays() map[string]stay {
	requests := p.requests()
	if requests < leastExchanges || p.unclear() != "" || p.seconds <= 0 {
		return nil
	}
	arrived, under, calls := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for a, h := range p.on {
		arrived[a.to] += float64(h.Exchanges)
		under[a.to] += h.InFlight.Seconds()
		if a.from != theLoad {
			calls[a.from] += h.InFlight.Seconds() + stalled(h)*packets.Stall.Seconds()
		}
	}
	out := map[string]stay{}
	for name, n := range arrived {
		if n == 0 {
			continue
		}
		out[name] = stay{
			visits: n / requests, ownMS: 1000 * max(0, under[name]-calls[name]) / n,
			callMS: 1000 * calls[name] / n, calls: calls[name] / p.seconds, callsTo: p.callsTo(name),
		}
	}
	return out
}

// callsTo is whom most of what is under way from a service is to; empty if it asks nobody.
func (p *passages) callsTo(service string) (to string) {
	var most time.Duration
	for a, h := range p.on {
		if a.from == service && a.from != theLoad && (h.InFlight > most || h.InFlight == most && a.to < to) {
			to, most = a.to, h.InFlight
		}
	}
	return to
}

// leastExchanges is how many requests times are worked out from, at the least.
const leastExchanges = 10

// sightings are what the trials of a variant saw of where requests wait.
type sightings struct {
	light   map[string]stay // of the one trial that has it
	at      map[string][]stay
	outside map[string]bool
	arrows  map[arrow][]result.HopArrow
}

func sightingsOf(trials []observed) *sightings {
	s := &sightings{at: map[string][]stay{}, outside: map[string]bool{}, arrows: map[arrow][]result.HopArrow{}}
	for i := range trials {
		t := &trials[i]
		if found := t.light.stays(); found != nil {
			s.light = found
		}
		found := t.atCapacity.stays()
		if found == nil {
			continue
		}
		for name, one := range found {
			s.at[name] = append(s.at[name], one)
			s.outside[name] = t.atCapacity.outside[name]
		}
		for a, drawn := range t.atCapacity.arrows() {
			s.arrows[a] = append(s.arrows[a], drawn)
		}
	}
	return s
}

// hopsOf is what a variant's trials saw of where requests wait, and what the verdict
// makes of it. Times at the capacity are medians over trials; those at a tenth of it are of
// the one trial that has them.
func hopsOf(trials []observed) (*result.Hops, []verdict.Wait) {
	out := &result.Hops{}
	for _, t := range trials {
		out.Unseen = cmp.Or(out.Unseen, t.unseen, t.atCapacity.unclear())
	}
	seen := sightingsOf(trials)
	if len(seen.at) == 0 && out.Unseen == "" {
		return nil, nil
	}
	var waits []verdict.Wait
	for _, name := range slices.Sorted(maps.Keys(seen.at)) {
		s := medians(seen.at[name], func(s *stay) []*float64 { return []*float64{&s.visits, &s.ownMS, &s.callMS, &s.calls} })
		box := result.HopBox{Name: name, Outside: seen.outside[name], Visits: s.visits, MS: s.ownMS}
		if l, ok := seen.light[name]; ok {
			own := l.ownMS
			box.LightMS = &own
			waits = append(waits, verdict.Wait{
				Component: name, Outside: box.Outside, LightMS: l.ownMS, MS: s.ownMS, Visits: s.visits, CallMS: l.callMS, Calls: s.calls, CallsTo: s.callsTo,
			})
		}
		out.Boxes = append(out.Boxes, box)
	}
	for a, drawn := range seen.arrows {
		joined := medians(drawn, func(h *result.HopArrow) []*float64 { return []*float64{&h.PerRequest, &h.MS, &h.InFlight, &h.Stalled} })
		joined.From, joined.To = a.from, a.to
		out.Arrows = append(out.Arrows, joined)
	}
	slices.SortFunc(out.Arrows, func(a, b result.HopArrow) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out, waits
}

// arrows are what a map of the system shows.
func (p *passages) arrows() map[arrow]result.HopArrow {
	requests := p.requests()
	out := map[arrow]result.HopArrow{}
	for a, h := range p.on {
		if n := float64(h.Exchanges); n > 0 && requests > 0 {
			out[a] = result.HopArrow{
				PerRequest: n / requests, MS: 1000 * h.InFlight.Seconds() / n, InFlight: h.InFlight.Seconds() / p.seconds, Stalled: stalled(h) / n,
			}
		}
	}
	return out
}

// stalled is how many pauses delayed acknowledgements explain. Pauses of arbitrary length fall into
// the two ranges beside theirs, which are twice as wide, twice as often: that many are taken off,
// to be on the safe side.
func stalled(h *packets.Hop) float64 {
	return max(0, float64(h.Stalls)-float64(h.Near))
}

// stalledMuch is the share of exchanges with a pause of 40 ms that is worth a warning.
const stalledMuch = 0.2

// stalls warns of hops on which messages pause.
func stalls(h *result.Hops) (warnings []string) {
	if h == nil {
		return nil
	}
	for _, a := range h.Arrows {
		if a.Stalled >= stalledMuch {
			from := cmp.Or(a.From, "the load")
			warnings = append(warnings, fmt.Sprintf("between %s and %s, %s of the exchanges pause for 40 ms: one of the two writes a message in parts, and sends the last only when the one before is acknowledged "+
				"(Nagle's algorithm), which the other delays; write messages whole, or set TCP_NODELAY", from, a.To, format.Percent(min(1, a.Stalled))))
		}
	}
	return warnings
}

// hops adds to a trial what it saw of where requests wait.
func (o *observed) hops(dir string, t archive.Trial, entry string, from, to time.Time) error {
	seen, err := readHops(dir)
	if err != nil {
		return err
	}
	o.unseen = t.Unseen
	o.atCapacity = passagesIn(seen, t.Instances, entry, from, to)
	if t.Light != nil {
		o.light = passagesIn(seen, t.Instances, entry, t.Light.From, t.Light.To)
	}
	return nil
}
