package runner

import (
	"context"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/topology"
)

// Outline is what a run would do.
type Outline struct {
	Trials []archive.Planned
	// Load is about how long each of them would be under load; starting, seeding,
	// settling and stopping come on top.
	Load []time.Duration
	// Systems are the variants', checked, by name.
	Systems  map[string]*topology.System
	Warnings []string
}

// Check says what Run would do, and starts nothing. Its errors are those that Run has
// before anything starts.
func Check(ctx context.Context, c Config) (*Outline, error) {
	k := &execution{Config: c, search: searchConfig(c.Experiment)}
	if err := k.check(ctx); err != nil {
		return nil, err
	}
	_, warnings := c.Driver.Machine(ctx)
	k.warn(warnings...)
	trials := plan(c.Variants, c.Experiment.Trials, c.Experiment.Seed)
	return &Outline{Trials: trials, Load: k.timesUnderLoad(trials), Systems: k.systems, Warnings: k.warned}, nil
}
