package results

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the system: what to start, and how its
// parts are configured. A file whose name begins with a dot has to be named.
//
//go:embed compose*.yaml .env
//go:embed nginx/nginx.conf nginx/templates nginx/html
//go:embed prometheus/prometheus.yml prometheus/rules
//go:embed grafana/provisioning grafana/dashboards
//go:embed k6/results.js
var shipped embed.FS

// Files are the Compose files of the system and all that they mount, as beside
// this source. compose.yaml is the full form, compose.embedded.yaml the one
// without servers.
func Files() fs.FS { return shipped }
