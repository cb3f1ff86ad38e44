package menu

import (
	"embed"
	"io/fs"
)

// shipped are the files that describe the system and its parts: what to start, and how it
// is configured.
//
//go:embed compose*.yaml services.yaml
//go:embed nginx/nginx.conf nginx/lb nginx/menulb
//go:embed prometheus/prometheus.yml prometheus/rules
//go:embed grafana/provisioning grafana/dashboards
var shipped embed.FS

// Files are the Compose files of the system and all that they mount, as beside this source.
// compose.yaml is the full form on PostgreSQL, compose.cassandra.yaml the one on Cassandra,
// and compose.embedded.yaml the one without servers.
func Files() fs.FS { return shipped }
