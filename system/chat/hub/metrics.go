package hub

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/system/chat"
)

// reason is why a connection ended.
type reason int

// Why connections end.
const (
	closedByViewer reason = iota // with a close frame
	closedGone                   // without
	closedBroken                 // the network
	closedProtocol               // it did what the protocol forbids
	closedFlood                  // more frames than MaxFrames
	closedSlow                   // more waited for it than MaxPrivate
	closedIdle                   // nothing was heard
	closedExpired                // Viewer.Until
	closedKicked                 // Conn.Close
	closedStopping               // the server
	closedFailed                 // of ours
	reasons
)

var reasonNames = [reasons]string{"viewer", "gone", "network", "protocol", "flood", "slow", "idle", "expired", "kicked", "stopping", "failure"}

// stats are a loop's counters. Only the loop adds to them.
type stats struct {
	frames, deliveries, bytes, skipped, blocked, received, busy atomic.Int64

	closed [reasons]atomic.Int64
}

// deliver counts a frame of messages to one viewer, of so many bytes.
func (s *stats) deliver(f *chat.Frame, size int) {
	s.frames.Add(1)
	s.deliveries.Add(int64(f.To - f.From - f.Skipped))
	s.bytes.Add(int64(size))
	if f.Skipped > 0 {
		s.skipped.Add(int64(f.Skipped))
	}
}

type metrics struct{ refusedTotal, refusedAddress, refusedRoom prometheus.Counter }

// newMetrics registers
//
//	chat_connections                    gauge: viewers
//	chat_rooms                          gauge: rooms with viewers
//	chat_connections_refused_total      by limit: total, address, room
//	chat_connections_closed_total       by reason, see reasonNames
//	chat_frames_sent_total              frames of messages, one for each viewer
//	chat_deliveries_total               messages sent, one for each viewer
//	chat_sent_bytes_total               in frames of messages
//	chat_skipped_total                  messages that viewers were told to have missed
//	chat_writes_blocked_total           writes that a socket did not take whole
//	chat_received_total                 messages of viewers
//	chat_loop_busy_seconds_total        time of the loops outside of waiting
func newMetrics(h *Hub) *metrics {
	auto := promauto.With(h.cfg.Registerer)
	gauge := func(name, help string, value func() int) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			h.mu.Lock()
			defer h.mu.Unlock()
			return float64(value())
		})
	}
	gauge("chat_connections", "Viewers that are connected.", func() int { return h.conns })
	gauge("chat_rooms", "Rooms with viewers.", func() int { return len(h.rooms) })
	sum := func(name, help string, labels prometheus.Labels, unit float64, value func(*stats) int64) {
		auto.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			var n int64
			for _, l := range h.loops {
				n += value(&l.stats)
			}
			return float64(n) * unit
		})
	}
	sum("chat_frames_sent_total", "Frames of messages sent to viewers.", nil, 1, func(s *stats) int64 { return s.frames.Load() })
	sum("chat_deliveries_total", "Messages sent to viewers.", nil, 1, func(s *stats) int64 { return s.deliveries.Load() })
	sum("chat_sent_bytes_total", "Bytes of frames of messages.", nil, 1, func(s *stats) int64 { return s.bytes.Load() })
	sum("chat_skipped_total", "Messages that viewers were told to have missed.", nil, 1, func(s *stats) int64 { return s.skipped.Load() })
	sum("chat_writes_blocked_total", "Writes that a socket did not take whole.", nil, 1, func(s *stats) int64 { return s.blocked.Load() })
	sum("chat_received_total", "Messages of viewers.", nil, 1, func(s *stats) int64 { return s.received.Load() })
	sum("chat_loop_busy_seconds_total", "Time of the loops outside of waiting.", nil, 1/float64(time.Second), func(s *stats) int64 { return s.busy.Load() })
	for why, name := range reasonNames {
		sum("chat_connections_closed_total", "Connections that ended, by reason.", prometheus.Labels{"reason": name}, 1,
			func(s *stats) int64 { return s.closed[why].Load() })
	}
	refused := auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_connections_refused_total", Help: "Viewers for whom there was no room, by limit."}, []string{"limit"})
	return &metrics{refused.WithLabelValues("total"), refused.WithLabelValues("address"), refused.WithLabelValues("room")}
}
