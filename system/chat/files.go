package chat

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the system: what to start, and how it is configured.
//
//go:embed compose*.yaml
//go:embed nginx/nginx.conf nginx/templates
//go:embed prometheus
//go:embed spark/*.py analysis/fold.tsv
var shipped embed.FS

// Files are the Compose files of the system and what they mount, as beside this source. compose.embedded.yaml is
// the form without servers to install, and compose.yaml the one with all parts.
func Files() fs.FS { return shipped }
