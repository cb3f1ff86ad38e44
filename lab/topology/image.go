package topology

import "strings"

// SplitImage is an image's repository without its registry and without what
// registries put before Docker's own images, and its tag; "" for none.
func SplitImage(image string) (repository, tag string) {
	name, _, _ := strings.Cut(image, "@") // a digest says nothing to us
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	if first, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		name = rest
	}
	name = strings.TrimPrefix(name, "docker/") // of mirrors that hold several registries
	return strings.TrimPrefix(name, "library/"), tag
}
