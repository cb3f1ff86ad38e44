package cli

import (
	"github.com/spf13/pflag"

	"loadstone/system/patterns/activity/stores"
	"loadstone/system/patterns/serve"
)

// activityFlags are the flags of /activities.
func activityFlags(fl *pflag.FlagSet, c *serve.Config) {
	fl.StringVar(&c.Activities, "activities", c.Activities, "where /activities stores: off, "+stores.Forms)
}
