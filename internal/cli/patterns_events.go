package cli

import (
	"github.com/spf13/pflag"

	"loadstone/system/patterns/event"
	"loadstone/system/patterns/serve"
)

// eventFlags are the flags of POST /handle.
func eventFlags(fl *pflag.FlagSet, c *serve.Config) {
	fl.StringVar(&c.Events, "events", c.Events, "where POST /handle sends an event: "+event.TargetForms)
}
