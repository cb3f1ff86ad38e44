package cgroup

import (
	"testing"
	"time"
)

const (
	cpuStatV1 = "nr_periods 50\nnr_throttled 20\nthrottled_time 987654321\nnr_bursts 0\nburst_time 0\n"
	cpuStatV2 = `usage_usec 2500000
user_usec 2000000
system_usec 500000
nice_usec 0
core_sched.force_idle_usec 0
nr_periods 100
nr_throttled 40
throttled_usec 1250000
nr_bursts 0
burst_usec 0
`
	memoryEvents = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n"
	oomControl   = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
)

func TestParsersRefuseOtherTexts(t *testing.T) {
	t.Parallel()
	var s Stat
	for name, parse := range map[string]func(*Stat, []byte) error{
		"v1 cpu.stat": parseCPUStatV1, "v2 cpu.stat": parseCPUStatV2,
		"number": number(func(*Stat, uint64) {}),
	} {
		for _, text := range []string{"", "nr_periods", "nr_periods x\n", "max\n", "-1\n", "nr_periods 99999999999999999999\n", "a 1\n"} {
			if err := parse(&s, []byte(text)); err == nil {
				t.Errorf("%s of %q: got no error", name, text)
			}
		}
	}
}

func TestCPUStatV2WithoutTheController(t *testing.T) {
	t.Parallel()
	var s Stat
	if err := parseCPUStatV2(&s, []byte("usage_usec 7\nuser_usec 4\nsystem_usec 3\n")); err != nil {
		t.Fatal(err)
	}
	if want := (Stat{CPU: 7 * time.Microsecond, User: 4 * time.Microsecond, System: 3 * time.Microsecond}); s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func FuzzStat(f *testing.F) {
	for _, s := range []string{cpuStatV1, cpuStatV2, memoryEvents, oomControl, "18446744073709551615\n", "18446744073709551616", "\n\n", "a  1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		var s Stat
		_ = parseCPUStatV1(&s, text)
		_ = parseCPUStatV2(&s, text)
		_ = parseOOMKills(&s, text)
		_ = number(func(*Stat, uint64) {})(&s, text)
	})
}
