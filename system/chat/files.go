package chat

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the system: what to start, and how it is configured.
//
//go:embed compose*.yaml
var shipped embed.FS

// Files are the Compose files of the system, as beside this source. compose.embedded.yaml is
// the form without servers.
func Files() fs.FS { return shipped }
