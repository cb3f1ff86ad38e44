package experiment

import (
	"fmt"
	"path/filepath"
	"slices"

	"loadstone/lab/stats"
	"loadstone/lab/threshold"
)

// SystemPaths returns the paths of the Compose files, from where the program
// runs, in the order in which they are merged.
func (e *Experiment) SystemPaths() []string {
	paths := make([]string, len(e.System))
	for i, path := range e.System {
		paths[i] = path
		if !filepath.IsAbs(path) {
			paths[i] = filepath.Join(filepath.Dir(e.file), path)
		}
	}
	return paths
}

// VariantNames returns the names of all variants, in the file's order.
func (e *Experiment) VariantNames() []string {
	names := make([]string, len(e.Variants))
	for i := range e.Variants {
		names[i] = e.Variants[i].Name
	}
	return names
}

// Notes returns what is allowed and may still not be meant, one sentence each,
// to be shown before a run of so many of the variants.
//
// That few trials give an interval of low confidence is no note: the report states the
// confidence, and one variant may need no more. That a comparison cannot come to anything is.
func (e *Experiment) Notes(variants int) []string {
	var notes []string
	if needed := stats.Needed(variants); e.Measure == Capacity && e.Trials < needed {
		notes = append(notes, fmt.Sprintf("trials: %d cannot show which of %d variants has the higher capacity; that takes %d", e.Trials, variants, needed))
	}
	if e.Measure == Capacity && !slices.ContainsFunc(e.SLO, func(o Objective) bool { return o.Metric == threshold.HTTPReqFailed }) {
		notes = append(notes, "the SLO says nothing about http_req_failed: a variant that answers with errors, fast, meets it")
	}
	if e.forgetsSkipped() {
		notes = append(notes, "the SLO has ws_msgs_lost and says nothing about ws_msgs_skipped: a server that says it left out everything meets it")
	}
	for _, s := range e.Load.Scenarios {
		if e.Measure == Capacity && s.Rate > 0 {
			notes = append(notes, fmt.Sprintf("measure: capacity searches for a rate, and the one given, %v/s of scenario %q, only says where the search begins; measure: load offers it as written", float64(s.Rate), s.Name))
		}
		if e.Measure == Capacity && (s.Duration > 0 || len(s.Stages) > 0) {
			notes = append(notes, fmt.Sprintf("measure: capacity chooses how long and at which rates it offers load: the duration or stages of scenario %q are not used", s.Name))
		}
	}
	if _, given := e.root.pair("search"); given && e.Measure == AsWritten {
		notes = append(notes, "measure: load searches nothing: search is not used")
	}
	if len(e.Load.Target) > 0 {
		notes = append(notes, "an experiment loads its entry service: target is only used by loadstone load")
	}
	return notes
}

// forgetsSkipped says whether the SLO judges what is lost and not what servers say they left out.
func (e *Experiment) forgetsSkipped() bool {
	judges := func(metric string) bool {
		return slices.ContainsFunc(e.SLO.Thresholds(), func(t threshold.Threshold) bool { return t.Metric == metric })
	}
	announced := slices.ContainsFunc(e.Load.Scenarios, func(s Scenario) bool { return s.WebSocket != nil && s.WebSocket.Skipped != "" })
	return announced && judges(threshold.WSMsgsLost) && !judges(threshold.WSMsgsSkipped)
}
