package cluster

import (
	"context"
	"fmt"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/topics"
)

// due is a summary of what is before an offset of a stream.
type due struct {
	stream int64
	next   uint64
}

// dueMost bounds the summaries that wait to be asked for. Those beyond are left out: the next ones are of newer messages.
const dueMost = 64

// summaryDue is told of each offset up to which there are messages.
func (l *Log) summaryDue(stream int64, next uint64) {
	if next%analysis.SummaryEvery != 0 {
		return
	}
	select {
	case l.due <- due{stream, next}:
	default:
	}
}

// askForSummaries asks for those that are due until ctx ends.
func (l *Log) askForSummaries(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-l.due:
			if err := l.askForSummary(ctx, d); err != nil && ctx.Err() == nil {
				l.cfg.Failed(err)
			}
		}
	}
}

func (l *Log) askForSummary(ctx context.Context, d due) error {
	h, err := l.broadcast.History(ctx, d.stream, broadcast.Range{To: d.next, Most: analysis.SummaryOf, Newest: true})
	if err != nil || len(h.Messages) == 0 {
		return err
	}
	return l.topics.Request(ctx, d.stream, h.Messages)
}

// heardResult keeps what is to be known after this server has ended, and hands it on.
func (l *Log) heardResult(topic string, value []byte) {
	l.metrics.results.WithLabelValues(topic).Inc()
	stream, err := topics.ParseResult(topic, value)
	if err != nil {
		l.cfg.Failed(fmt.Errorf("a record of %s cannot be read: %w", topic, err))
		return
	}
	if topic == topics.Summaries {
		kept, err := l.broadcast.KeepSummary(context.Background(), stream, value) // it has a timeout of its own
		switch {
		case err != nil:
			l.cfg.Failed(err) // viewers are told all the same
		case !kept:
			return // there is a newer one, or it is of what Redis has forgotten
		}
	}
	l.cfg.Results(topic, stream, value)
}

// Summary is the newest of a stream, as viewers are told it, or nil if there is none.
func (l *Log) Summary(ctx context.Context, stream int64) ([]byte, error) {
	summary, err := l.broadcast.Summary(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return summary, nil
}
