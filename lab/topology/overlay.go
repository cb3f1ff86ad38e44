package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"loadstone/block/spelling"
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

func (e *UnknownServiceError) Error() string { return e.Overlay + ": " + e.sentence() }

// sentence is the error without the name of the overlay.
func (e *UnknownServiceError) sentence() string {
	hint := ""
	if e.Nearest != "" {
		hint = fmt.Sprintf("did you mean %q? ", e.Nearest)
	}
	return fmt.Sprintf("there is no service %q; %sthe services are %s", e.Name, hint, strings.Join(e.Known, ", "))
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
				return fmt.Errorf("service %s: %s: %w", name, processKey, err)
			}
		}
		if known[name] != nil || s["image"] != nil || s["build"] != nil || s["extends"] != nil || s[processKey] != nil {
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		near, _ := spelling.Nearest(name, names)
		return &UnknownServiceError{Overlay: overlayName, Name: name, Known: names, Nearest: near}
	}
	return nil
}

// checkExtensions refuses a misspelt x-process, which Compose would pass over as
// it does all that it does not know.
func checkExtensions(model map[string]any) error {
	all := services(model)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name][processKey] != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(all[name])) {
			if near, ok := spelling.Nearest(key, []string{processKey, optionalKey, resourcesKey, requestsKey}); ok && near == processKey && strings.HasPrefix(key, "x-") {
				return fmt.Errorf("service %s: %s is not a known key; write %s", name, key, processKey)
			}
		}
	}
	return nil
}

// collectProcesses adds the x-process of a layer's services to those of the
// layers below it.
func collectProcesses(processes, layer map[string]any) {
	for name, s := range services(layer) {
		if s[processKey] != nil {
			processes[name] = s[processKey]
		}
	}
}

// replaceProcesses gives services the x-process of the last layer that has one.
// Compose appends lists that it does not know; two commands in a row are none.
func replaceProcesses(model, processes map[string]any) {
	merged := services(model)
	for name, process := range processes {
		if merged[name] != nil {
			merged[name][processKey] = process
		}
	}
}
