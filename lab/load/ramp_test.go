package load

import (
	"testing"
	"time"
)

func TestUserRamp(t *testing.T) {
	t.Parallel()
	const s = time.Second
	upDown := UserRamp{first: 0, stages: []userStage{{4 * s, 4}, {2 * s, 4}, {2 * s, 0}}}
	tests := []struct {
		name string
		ramp UserRamp
		at   time.Duration
		want int
	}{
		{"constant", UserRamp{5, []userStage{{10 * s, 5}}}, 3 * s, 5},
		{"up: the first user comes after a step", upDown, 1*s - 1, 0},
		{"up: at the step", upDown, 1 * s, 1},
		{"up: the last comes at the end of the stage", upDown, 4*s - 1, 3},
		{"up: all", upDown, 4 * s, 4},
		{"hold", upDown, 5 * s, 4},
		{"down: the first goes after a step", upDown, 6*s + s/2 - 1, 4},
		{"down: at the step", upDown, 6*s + s/2, 3},
		{"down: the last goes at the end", upDown, 8*s - 1, 1},
		{"after the end", upDown, 9 * s, 0},
		{"jump at the start", UserRamp{0, []userStage{{0, 7}, {s, 7}}}, 0, 7},
		{"jump in between", UserRamp{2, []userStage{{s, 2}, {0, 9}, {s, 9}}}, s, 9},
		{"no overflow", UserRamp{0, []userStage{{maxTime, maxUsers}}}, maxTime / 2, maxUsers / 2},
	}
	for _, test := range tests {
		if got := test.ramp.At(test.at); got != test.want {
			t.Errorf("%s: at(%v) = %d, want %d", test.name, test.at, got, test.want)
		}
	}
}

// FuzzUserRampNext checks next against at: between t and next the count stays
// as it is, and at next it is another.
func FuzzUserRampNext(f *testing.F) {
	f.Add(uint8(0), uint16(400), uint8(4), uint16(0), uint8(9), uint16(100), uint8(0))
	f.Add(uint8(3), uint16(0), uint8(3), uint16(7), uint8(200), uint16(3), uint8(1))
	f.Add(uint8(3), uint16(10), uint8(3), uint16(10), uint8(3), uint16(0), uint8(5))
	f.Fuzz(func(t *testing.T, first uint8, d1 uint16, n1 uint8, d2 uint16, n2 uint8, d3 uint16, n3 uint8) {
		r := UserRamp{int(first), []userStage{
			{time.Duration(d1 % 500), int(n1)}, {time.Duration(d2 % 500), int(n2)}, {time.Duration(d3 % 500), int(n3)},
		}}
		end := r.End()
		at := time.Duration(0)
		for {
			now := r.At(at)
			next, ok := r.Next(at)
			if !ok {
				next = end // the count at the end itself does not matter
			}
			if ok && (next <= at || next > end || r.At(next) == now) {
				t.Fatalf("%+v: next(%d) = %d, where the count is %d and was %d", r, at, next, r.At(next), now)
			}
			for between := at; between < next; between++ {
				if got := r.At(between); got != now {
					t.Fatalf("%+v: %d users at %d, %d at %d, but next(%d) = %d, %v", r, now, at, got, between, at, next, ok)
				}
			}
			if !ok {
				return
			}
			at = next
		}
	})
}
