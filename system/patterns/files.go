package patterns

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the service and its parts: what to start, and
// how it is configured.
//
//go:embed compose*.yaml services.yaml
//go:embed nginx/nginx.conf nginx/templates
var shipped embed.FS

// Files are the Compose files of the service and all that they mount, as beside this
// source. compose.all.yaml is the full form of all six patterns,
// compose.all.embedded.yaml the one without servers; the others hold the parts.
func Files() fs.FS { return shipped }
