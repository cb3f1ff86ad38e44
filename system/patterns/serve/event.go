package serve

import (
	"context"
	"fmt"

	"loadstone/block/lifecycle"
	"loadstone/system/patterns/event"
)

// checkEvents says what is wrong with the place of events.
func (c Config) checkEvents() error {
	if c.Events == Off {
		return nil
	}
	_, err := event.ParseTarget(c.Events)
	return err
}

// openEvents opens POST /handle.
func (s *service) openEvents(ctx context.Context) error {
	if s.cfg.Events == Off {
		return nil
	}
	target, err := event.ParseTarget(s.cfg.Events)
	if err != nil {
		return err
	}
	h, err := event.New(ctx, event.Config{Target: target, Registerer: s.registry, Timeout: event.DefaultTimeout})
	if err != nil {
		return fmt.Errorf("open the events: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "events", Close: h.Close})
	s.readiness = append(s.readiness, h.Ready)
	s.routes.add("POST", "/handle", h.Handle)
	return nil
}
