package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"loadstone/lab/archive"
)

const (
	// every is how often the raw files are looked at.
	every = time.Second
	// maxViewers bounds the live pages that are open at once. A further one is
	// answered 503, and shows what it was rendered with.
	maxViewers = 32
	// eventTimeout bounds one write to a browser: one that takes longer for a
	// few KB is gone.
	eventTimeout = 10 * time.Second
	// heartbeat keeps a connection on which nothing changes from being closed on
	// the way, and finds out that the browser is gone.
	heartbeat = 15 * time.Second
	// reportWait is how long a run that is whole may take to have its report
	// written before the page goes on without it.
	reportWait = 30 * time.Second
)

// events tells a live page what changes, as Server-Sent Events: "part" with the
// name and the new inside of an element, and "end" when the page is out of
// date, after which the stream ends.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	select {
	case h.viewers <- struct{}{}:
		defer func() { <-h.viewers }()
	default:
		http.Error(w, "too many pages are live; close one of them", http.StatusServiceUnavailable)
		return
	}
	root, err := h.index.openRun(r.PathValue("name"))
	if err != nil {
		h.notFound(w, r)
		return
	}
	l, err := openLive(root)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer l.close() //nolint:errcheck // read only
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := &stream{w: w, control: http.NewResponseController(w), handler: h, live: l, sent: map[string]string{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// An error is the browser's going away, or a run that became unreadable:
		// either way there is nobody to tell, and the page says that it is not live.
		if more, err := s.step(); err != nil || !more {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// stream is the events to one browser.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	handler *handler
	live    *live
	sent    map[string]string // parts, as the browser has them
	last    time.Time         // that something was sent
}

// step sends what has changed. more is false after the last event.
func (s *stream) step() (more bool, err error) {
	now := s.handler.index.now()
	state := s.live.state(now)
	if state == whole {
		complete := stampOf(s.live.root, archive.CompleteFile)
		if stampOf(s.live.root, reportFile).there() || now.Sub(complete.at) > reportWait {
			return false, s.send("end", string(state))
		}
	}
	if state == stopped {
		return false, s.send("end", string(state))
	}
	if err := s.live.refresh(); err != nil {
		return false, err
	}
	parts, err := s.handler.parts(s.live.page())
	if err != nil {
		return false, err
	}
	for _, name := range partNames {
		if html, ok := s.sent[name]; ok && html == parts[name] {
			continue
		}
		data, err := json.Marshal(map[string]string{"name": name, "html": parts[name]})
		if err != nil {
			return false, err
		}
		if err := s.send("part", string(data)); err != nil {
			return false, err
		}
		s.sent[name] = parts[name]
	}
	if now.Sub(s.last) >= heartbeat {
		return true, s.send("still", "here")
	}
	return true, nil
}

// send writes one event. Data has no line breaks.
func (s *stream) send(event, data string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	s.last = s.handler.index.now()
	return s.control.Flush()
}
