package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/topics"
)

// A job that has lost how far it was answers what was asked before again: viewers have a newer summary.
func TestAnOlderSummaryIsNotTold(t *testing.T) {
	t.Parallel()
	c := broadcast.DefaultConfig()
	c.Address, c.Timeout = "redis://"+servertest.Redis(t).Addr(), time.Minute // on a busy machine
	redis, err := broadcast.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	var all []*chat.Raw
	for i := range 300 {
		all = append(all, &chat.Raw{Stream: 1, Message: chat.Message{At: 1, Sender: "noor", ID: fmt.Sprint(i)}})
	}
	for _, p := range redis.Place(t.Context(), all) {
		if p.Err != nil {
			t.Fatal(p.Err)
		}
	}
	var told []string
	l := &Log{metrics: newMetrics(prometheus.NewRegistry()), broadcast: redis, cfg: Config{
		Broadcast: c, Failed: func(err error) { t.Error(err) }, Results: func(_ string, _ int64, value []byte) { told = append(told, string(value)) },
	}}
	summary := func(next int) string {
		return fmt.Sprintf(`{"stream":1,"type":"summary","from":0,"next":%d,"lines":[],"text":""}`, next)
	}
	for _, next := range []int{100, 200, 100, 300, 100, 200, 300} {
		l.heardResult(topics.Summaries, []byte(summary(next)))
	}
	if want := []string{summary(100), summary(200), summary(300), summary(300)}; !slices.Equal(told, want) {
		t.Errorf("viewers are told %q, want %q", told, want)
	}
	if kept, err := l.Summary(t.Context(), 1); err != nil || string(kept) != summary(300) {
		t.Errorf("kept is %s, %v", kept, err)
	}
}
