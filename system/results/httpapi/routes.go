package httpapi

import (
	"bytes"

	"loadstone/block/route"
)

// Serves reports whether a path, as it was sent, is one of this interface's. All
// others may be somebody else's.
func Serves(path []byte) bool {
	if bytes.HasPrefix(path, studentPath) { // almost all
		return true
	}
	switch string(path) {
	case route.HealthPath, route.ReadyPath, documentPath:
		return true
	}
	return false
}
