package movie

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"loadstone/block/pause"
)

// chart is the made-up source: the ten movies that were seen most, as if they had
// been counted over a large table. Each reading finds more views.
type chart struct {
	delay    time.Duration
	readings atomic.Int64
}

// titles are made up.
var titles = [...]string{
	"The Long Ferry", "Salt and Iron", "A Quiet Harbour", "North of Adama", "Seven Lamps",
	"The Clockmaker's Garden", "Red Earth", "The Last Timetable", "Monsoon Letters", "Half a Mountain",
}

// seen is one line of the list.
type seen struct {
	Rank  int    `json:"rank"`
	Title string `json:"title"`
	Views int64  `json:"views"`
}

// read takes the delay and returns the list in JSON. as_of is when the counting
// began.
func (c *chart) read(ctx context.Context) ([]byte, error) {
	began := time.Now()
	if !pause.For(ctx, c.delay) {
		return nil, fmt.Errorf("count the views: %w", ctx.Err())
	}
	n := c.readings.Add(1)
	list := make([]seen, len(titles))
	for i, title := range titles {
		list[i] = seen{Rank: i + 1, Title: title, Views: 1_000_000/int64(i+1) + n*int64(len(titles)-i)}
	}
	data, err := json.Marshal(struct {
		AsOf   time.Time `json:"as_of"`
		Movies []seen    `json:"movies"`
	}{began, list})
	if err != nil {
		return nil, fmt.Errorf("write the list: %w", err)
	}
	return data, nil
}
