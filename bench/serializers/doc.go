// Package serializers compares what a page of the feed costs in libraries that write JSON. It is
// a module of its own, so that none of them is one of Loadstone's:
//
//	cd bench/serializers && go test -bench . -count 10
//
// docs/adr/019-a-library-for-json.md has the figures, and what was decided.
package serializers
