package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/block/lifecycle"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/stores"
)

// storeDeadline bounds the wait for the database of activities when the service
// starts, the making of its tables included: a Cassandra node on a busy machine
// takes most of a minute until it answers.
const storeDeadline = time.Minute

// checkActivities returns what is wrong with the address of the store, or nil.
func (c Config) checkActivities() error {
	if c.Activities == Off {
		return nil
	}
	if err := stores.Check(c.Activities); err != nil {
		return fmt.Errorf("%w, or %s", err, Off)
	}
	return nil
}

// openActivities opens POST /activities and GET /activities/{id}.
func (s *service) openActivities(ctx context.Context) error {
	if s.cfg.Activities == Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeDeadline)
	defer cancel()
	store, err := stores.Open(ctx, s.cfg.Activities, s.registry)
	if err != nil {
		return err
	}
	cfg := activity.DefaultConfig()
	cfg.Store, cfg.Logger, cfg.Registerer = store, s.logger, s.registry
	h, err := activity.New(cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("open the activities: %w", err), store.Close())
	}
	durability := h.Durability()
	s.logger.Info("activities", "synced_before_answer", durability.Synced, "how", durability.How)
	s.group.Add(lifecycle.Component{Name: "activities", Close: h.Close})
	s.routes.add("POST", activity.Path, h.Post)
	s.routes.addPrefix("GET", activity.Path+"/", h.Get)
	return nil
}
