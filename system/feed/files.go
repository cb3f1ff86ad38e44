package feed

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the system and its parts: what to start, and how it
// is configured.
//
//go:embed compose*.yaml
//go:embed nginx/nginx.conf nginx/templates
var shipped embed.FS

// Files are the Compose files of the system and all that they mount, as beside this source.
// compose.yaml is the full form on PostgreSQL, and compose.embedded.yaml the one without
// servers.
func Files() fs.FS { return shipped }
