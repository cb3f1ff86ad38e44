package chat

import (
	"fmt"
	"time"

	"loadstone/block/random"
)

// maxInvented bounds invented streams: all streams are in memory.
const maxInvented = 100_000

// InventStreams makes streams up, with the ids from 1 on. They are the same each time.
func InventStreams(count int) ([]Stream, error) {
	if count < 1 || count > maxInvented {
		return nil, fmt.Errorf("%d streams: write 1 to %d", count, maxInvented)
	}
	topics := [...]string{"Cooking", "Chess", "Drawing", "Guitar", "Speedrun", "Gardening", "Late talk", "Football", "Astronomy", "Knitting", "요리", "게임"}
	hosts := [...]string{"Noor", "Olga", "민수", "Ada", "지우", "Samir", "Yara", "Kofi"}
	first := time.Date(2026, time.January, 31, 18, 0, 0, 0, time.UTC)
	all := make([]Stream, count)
	for i := range all {
		draw := random.New(1, int64(i+1))
		all[i] = Stream{
			ID: int64(i + 1), Title: fmt.Sprintf("%s, part %d", topics[draw.Below(len(topics))], 1+draw.Below(99)),
			Host: hosts[draw.Below(len(hosts))], Started: first.Add(time.Duration(i) * time.Minute),
		}
	}
	return all, nil
}
