package kafka

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"loadstone/lab/probe"
	"loadstone/lab/series"
)

// written is a partition.
type written struct{ end, done, checkpoint, committed int64 }

// member is a consumer of some partitions, as consumers are: it takes what is there, up to a bound,
// works on that, commits what it has done if that is due, and takes the next.
type member struct {
	of    []*written
	does  float64 // records/s
	every float64 // seconds between commits
	// checkpoints has commits be of how far it was a moment before, at even times, as Flink's are.
	checkpoints bool

	taken       []int64 // per partition
	until       float64 // when it has done that
	due, commit float64 // when the next commit is due, and when that of a checkpoint comes
}

const (
	mostTaken = 500  // records at a time, as Java's client has it
	dt        = 0.02 // seconds
)

// step has a member go on until now.
func (m *member) step(random *rand.Rand, now float64) {
	if m.checkpoints && now >= m.commit {
		for _, p := range m.of {
			p.committed = p.checkpoint
		}
		m.commit = math.Inf(1)
	}
	if now < m.until {
		return
	}
	for i, p := range m.of {
		p.done += m.taken[i]
	}
	if now >= m.due {
		for _, p := range m.of {
			if p.checkpoint = p.done; !m.checkpoints {
				p.committed = p.done
			}
		}
		m.commit = now + 0.1 + 0.4*random.Float64()
		if m.checkpoints {
			m.due += m.every
		} else {
			m.due = now + m.every
		}
	}
	all := 0.0
	for i, p := range m.of {
		m.taken[i] = min(p.end-p.done, mostTaken/int64(len(m.of)))
		all += float64(m.taken[i])
	}
	m.until = max(m.until, now-dt)
	if all > 0 { // as long as so many exponential times, about
		m.until += max(0, all+math.Sqrt(all)*random.NormFloat64()) / m.does
	}
	if random.Float64() < 0.002 { // such as for garbage
		m.until += 0.2
	}
}

// consumption is a topic and its consumers.
type consumption struct {
	rate, does  float64 // records/s that come, and that its members can do
	every       float64
	checkpoints bool
	partitions  int
	members     int
}

// watched is what a Reader tells of so many seconds under load.
func (c consumption) watched(t *testing.T, random *rand.Rand, seconds float64) *series.View {
	t.Helper()
	const idle = 5 // s
	r := &Reader{ends: make(map[partition]int64), all: make(map[part]*progress)}
	q := queue{"kitchen", "orders"}
	log := make([]*written, c.partitions)
	members := make([]*member, c.members)
	for i := range members {
		members[i] = &member{does: c.does / float64(c.members), every: c.every, checkpoints: c.checkpoints, due: c.every * random.Float64(), commit: math.Inf(1)}
		if c.checkpoints { // of all at once
			members[i].due = members[0].due
		}
	}
	for i := range log {
		log[i] = &written{}
		m := members[i%c.members]
		m.of, m.taken = append(m.of, log[i]), append(m.taken, 0)
	}
	began := time.Unix(1_800_000_000, 0)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	v := &series.View{Instance: "log-1", From: at(idle), To: at(idle + seconds)}
	asks := random.Float64()
	for now := 0.0; now < idle+seconds; now += dt {
		for _, p := range log {
			if now >= idle-0.3 { // the warm-up
				p.end += poisson(random, c.rate/float64(c.partitions)*dt)
			}
		}
		for _, m := range members {
			m.step(random, now)
		}
		if now < asks {
			continue
		}
		asks += 0.5 + random.Float64() // as a probe.Source does
		lags, ends := make(map[int32]kadm.GroupMemberLag), make(map[partition]int64)
		for i, p := range log {
			lags[int32(i)] = kadm.GroupMemberLag{Lag: p.end - p.committed, End: kadm.ListedOffset{Offset: p.end}}
		}
		s, err := r.total(q, lags, ends)
		if err != nil {
			t.Fatal(err)
		}
		r.ends = ends
		values := make(map[string]float64)
		s.tell(q, values)
		v.Scrapes = append(v.Scrapes, probe.Scrape{At: at(now), Instance: v.Instance, Values: values})
	}
	return v
}

// poisson is how many come of so many on average; of more than a few, by the normal distribution.
func poisson(random *rand.Rand, mean float64) (n int64) {
	if mean > 5 {
		return int64(max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
	}
	for left := mean; ; n++ {
		if left -= random.ExpFloat64(); left < 0 {
			return n
		}
	}
}

func named(name string) func(string) bool {
	return func(s string) bool { return strings.HasPrefix(s, name) }
}

// TestFallingBehindIsSeen has consumers do all that comes, and a little less, with commits every 0.5 to 5 s, in step
// with the questions' second and nearly so. What was looked at before is what is overdue: nothing for 33 s of a consumer
// that does 97 % and, with commits every 5 s, for two minutes. Shares are of the simulated loads of a length.
func TestFallingBehindIsSeen(t *testing.T) {
	t.Parallel()
	const runs, mostFalse, leastSeen = 100, 0.02, 0.5
	lengths := []float64{11, 15, 20, 30, 60}
	for name, c := range map[string]struct {
		of             consumption
		seen97, seen90 float64 // from which length on it is seen; 0 if of none of these
	}{
		"every half second":              {consumption{rate: 1000, every: 0.5, partitions: 1, members: 1}, 20, 11},
		"every second":                   {consumption{rate: 1000, every: 1, partitions: 1, members: 1}, 30, 11},
		"nearly every second":            {consumption{rate: 1000, every: 0.95, partitions: 3, members: 1}, 30, 11},
		"every two":                      {consumption{rate: 1000, every: 2, partitions: 3, members: 1}, 60, 20},
		"every five":                     {consumption{rate: 1000, every: 5, partitions: 1, members: 1}, 60, 20},
		"every five, by turns":           {consumption{rate: 1000, every: 5, partitions: 3, members: 3}, 60, 30},
		"every five at checkpoints":      {consumption{rate: 1000, every: 5, partitions: 3, members: 1, checkpoints: true}, 60, 20},
		"nearly every five, checkpoints": {consumption{rate: 1000, every: 4.9, partitions: 1, members: 1, checkpoints: true}, 60, 20},
		"few every second":               {consumption{rate: 50, every: 1, partitions: 1, members: 1}, 0, 30},
		"few every five":                 {consumption{rate: 50, every: 5, partitions: 3, members: 1}, 0, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := func(does, seconds float64) (seen float64) {
				random := rand.New(rand.NewPCG(uint64(seconds), uint64(100*does)))
				c.of.does = does * c.of.rate
				overdue := 0.0
				for range runs {
					v := c.of.watched(t, random, seconds)
					if _, behind := v.Behind(named(leftSeries), named(committedSeries)); behind {
						seen += 1.0 / runs
					}
					if g, _ := v.Gauge(named(overdueSeries)); g.Above >= 0.65 || g.Slope >= 0.05*c.of.rate { // as package verdict has it
						overdue += 1.0 / runs
					}
				}
				t.Logf("does %.2f, %2.0f s: behind in %.2f, overdue in %.2f", does, seconds, seen, overdue)
				return seen
			}
			for _, does := range []float64{1.1, 2} {
				all := 0.0
				for _, seconds := range lengths {
					all += count(does, seconds) / float64(len(lengths))
				}
				if all > mostFalse {
					t.Errorf("does %.2f of what comes, and is behind in %.3f of the loads", does, all)
				}
			}
			for _, less := range []struct{ does, from float64 }{{0.97, c.seen97}, {0.9, c.seen90}} {
				for _, seconds := range lengths {
					if seen := count(less.does, seconds); seen < leastSeen && less.from > 0 && seconds >= less.from {
						t.Errorf("does %.2f of what comes, and is behind in %.2f of the loads of %.0f s", less.does, seen, seconds)
					}
				}
			}
		})
	}
}
