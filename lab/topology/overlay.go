package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UnknownServiceError is an overlay that names a service which the Compose
// file does not have, and does not say what it should run either.
type UnknownServiceError struct {
	Overlay string   // what Config calls it
	Name    string   // as written
	Known   []string // the services that there are, sorted
	// Nearest is the known name that was probably meant; empty if none is
	// similar enough.
	Nearest string
}

func (e *UnknownServiceError) Error() string {
	hint := ""
	if e.Nearest != "" {
		hint = fmt.Sprintf("did you mean %q? ", e.Nearest)
	}
	return fmt.Sprintf("%s: there is no service %q; %sthe services are %s", e.Overlay, e.Name, hint, strings.Join(e.Known, ", "))
}

// checkOverlay refuses services that only the overlay has, unless it says what
// they run: without that it is a misspelt name, which Compose would report as
// a service without an image. It also checks x-process, which Compose would
// only refuse to merge.
func checkOverlay(overlayName string, base, overlay map[string]any) error {
	known := services(base)
	added := services(overlay)
	for _, name := range slices.Sorted(maps.Keys(added)) {
		s := added[name]
		if s[processKey] != nil {
			if _, err := processArgv(s[processKey]); err != nil {
				return fmt.Errorf("%s: service %s: %s: %w", overlayName, name, processKey, err)
			}
		}
		if known[name] != nil || s["image"] != nil || s["build"] != nil || s["extends"] != nil || s[processKey] != nil {
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		return &UnknownServiceError{Overlay: overlayName, Name: name, Known: names, Nearest: nearest(name, names)}
	}
	return nil
}

// replaceProcesses gives services the overlay's x-process where it has one.
// Compose appends lists that it does not know; two commands in a row are none.
func replaceProcesses(model, overlay map[string]any) {
	merged := services(model)
	for name, s := range services(overlay) {
		if s[processKey] != nil && merged[name] != nil {
			merged[name][processKey] = s[processKey]
		}
	}
}

// nearest is the name with the fewest edits to word, if those are few for its
// length: one for a short word, a third of its letters for a long one.
func nearest(word string, names []string) string {
	best, bestEdits := "", max(1, len(word)/3)+1
	for _, name := range names {
		if n := edits(word, name); n < bestEdits {
			best, bestEdits = name, n
		}
	}
	return best
}

// edits is the Levenshtein distance: how many bytes to insert, delete or
// replace to get from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
