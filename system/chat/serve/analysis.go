package serve

import (
	"context"
	"encoding/json"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/analysis/analyst"
	"loadstone/system/chat/analysis/replay"
	"loadstone/system/chat/llm"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/moderation/desk"
)

// codeLive is the code where the replay is asked for of a stream that has not ended.
const codeLive route.Code = "stream_live"

// material is the log as the analysis reads it: as far as viewers see it.
type material struct {
	*logstore.Log
	desk *desk.Desk
}

func (m material) Length(stream int64) uint64 {
	next := m.Log.Length(stream)
	if next == 0 {
		return 0
	}
	return min(next, m.desk.Room(stream).Shown())
}

func (m material) Read(stream int64, from uint64, most int) ([]chat.Encoded, error) {
	shown := m.Length(stream)
	if from >= shown {
		return nil, nil
	}
	return m.Log.Read(stream, from, int(min(uint64(most), shown-from)))
}

// openAnalyst makes the analyst, which goes on where it was.
func (s *server) openAnalyst(parts *service.Service) {
	c := analyst.DefaultConfig()
	c.Log, c.Registerer = material{s.own, s.desk}, parts.Registry
	c.Announce = func(stream int64, message []byte) { s.hub.Announce(stream, message, false) }
	c.Failed = func(err error) { parts.Logger.Warn("the analysis goes on later", "error", err) }
	if s.cfg.Summaries.On() {
		c.Model = llm.New(s.cfg.Summaries)
	}
	s.analyst = analyst.New(c)
	parts.Add(service.Component{Name: "analyst", Run: s.analyst.Run})
}

// Publish shows a message to all, and then it may be analysed.
func (a audience) Publish(room int64, offset uint64, message []byte) {
	a.Hub.Publish(room, offset, message)
	if a.server.analyst != nil {
		a.server.analyst.Published(room, offset+1)
	}
}

// Bounds of answers. A show of 14 hours has 5,000 spans.
const (
	mostSpans      = 5000
	mostHighlights = 500
	pageReplay     = 50
)

// showAnalysis answers GET /api/streams/{id}/analysis.
func (s *server) showAnalysis(c context.Context, ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	if s.own == nil {
		summary, err := s.shared.Summary(c, stream.ID)
		if err != nil {
			return failure(err)
		}
		return answer(ctx, fasthttp.StatusOK, map[string]any{"totals": s.results.totals(stream.ID), "summary": json.RawMessage(summary)})
	}
	totals, err := analyst.LoadTotals(s.own, stream.ID)
	if err != nil {
		return failure(err)
	}
	summary, err := analyst.LoadSummary(material{s.own, s.desk}, stream.ID)
	if err != nil {
		return failure(err)
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"totals": totals, "summary": summary})
}

// showTimeline answers GET /api/streams/{id}/timeline.
func (s *server) showTimeline(ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	if s.own == nil {
		return failure(chat.ErrNotHere)
	}
	spans, err := analyst.LoadSpans(s.own, stream.ID, mostSpans)
	if err != nil {
		return failure(err)
	}
	highlights, err := analyst.LoadHighlights(s.own, stream.ID, mostHighlights)
	if err != nil {
		return failure(err)
	}
	length := int64(0)
	if len(spans) > 0 {
		length = (spans[len(spans)-1].At + 1) * analysis.SpanMillis
	}
	if !stream.Live() {
		length = max(length, stream.Ended.Sub(stream.Started).Milliseconds())
	}
	return answer(ctx, fasthttp.StatusOK, map[string]any{"span": analysis.SpanMillis, "length": length, "spans": spans, "highlights": highlights})
}

// replayed is a message with its time in the video.
type replayed struct {
	Video  int64  `json:"video"`
	Offset uint64 `json:"offset"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// replay answers GET /api/streams/{id}/replay.
func (s *server) replay(ctx *fasthttp.RequestCtx, stream *chat.Stream) error {
	if s.own == nil {
		return failure(chat.ErrNotHere)
	}
	if stream.Live() {
		return &route.Error{Code: codeLive}
	}
	const most = 1 << 53
	video, err := number(ctx, "video", 0)
	if err != nil {
		return err
	}
	offset, err := number(ctx, "offset", most)
	if err != nil {
		return err
	}
	r := replay.New(material{s.own, s.desk}, *stream, replay.Place{Offset: offset, Video: int64(min(video, most))})
	if offset >= most {
		err = r.Find(int64(min(video, most)))
	}
	if err != nil {
		return failure(err)
	}
	found, err := r.Next(pageReplay)
	if err != nil {
		return failure(err)
	}
	messages := []replayed{}
	for _, m := range found {
		messages = append(messages, replayed{m.Video, m.Offset, m.Name, m.Text})
	}
	next := r.Place()
	return answer(ctx, fasthttp.StatusOK, map[string]any{"messages": messages, "offset": next.Offset, "video": next.Video})
}
