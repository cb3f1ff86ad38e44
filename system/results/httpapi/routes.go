package httpapi

import "bytes"

// Serves reports whether a path, as it was sent, is one of this interface's. All
// others may be somebody else's.
func Serves(path []byte) bool {
	if bytes.HasPrefix(path, studentPath) { // almost all
		return true
	}
	switch string(path) {
	case healthPath, readyPath, documentPath:
		return true
	}
	return false
}
