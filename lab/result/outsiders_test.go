package result

import (
	"testing"

	"loadstone/lab/host"
)

func TestMostOutside(t *testing.T) {
	t.Parallel()
	stress, kswapd := host.Process{PID: 4711, Name: "stress", Cores: 0.9}, host.Process{PID: 40, Name: "kswapd0", Cores: 0.6, Kernel: true}
	small := host.Process{PID: 12, Name: "top", Cores: 0.05}
	for name, c := range map[string]struct {
		of      Conditions
		want    string
		process bool
	}{
		"nothing is known": {Conditions{Outside: 1}, "", true},
		"a process":        {Conditions{Outside: 1, Interrupts: 0.02, Outsiders: []host.Process{stress, small}}, ", mostly stress (process 4711)", true},
		"two of them":      {Conditions{Outside: 1.5, Outsiders: []host.Process{stress, kswapd, small}}, ", mostly stress (process 4711) and kswapd0 (the kernel's)", true},
		"less than half":   {Conditions{Outside: 2, Outsiders: []host.Process{stress}}, ", partly stress (process 4711)", true},
		"stolen":           {Conditions{Outside: 0.5, Stolen: 0.4, Interrupts: 0.06, Outsiders: []host.Process{small}}, ", mostly other guests of its host (stolen time)", false},
		"interrupts":       {Conditions{Outside: 0.5, Stolen: 0.06, Interrupts: 0.3}, ", mostly interrupts and other guests of its host (stolen time)", false},
	} {
		if got, process := c.of.MostOutside(); got != c.want || process != c.process {
			t.Errorf("%s: got %q, %v; want %q, %v", name, got, process, c.want, c.process)
		}
	}
}
