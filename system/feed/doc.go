// Package feed is the domain of the feed system: the posts of an organisation's app, what an
// app asks for to show them, and the contract that stores keep.
//
// It holds no storage and no HTTP. Its words:
//
//   - a Post is one line of the list, newest first (API 1); it says which details it has
//   - a Detail is one Part of a post: its media, its author with a profile, or its responses,
//     which are reactions and comments (APIs 2, 3 and 4)
//   - Notices are what an app asks for once in a while (API 5)
//   - an Entry is a post with everything about it, as it is written
//   - a Cursor is where in the list a client is
//
// # The journey
//
// Requests are not the unit of load, journeys are: one user opens the app and reads 63 posts,
// of which one has no media, and asks for notices 14 times meanwhile. Three ways of asking
// serve the same user:
//
//	separate   63 of one post + 14 + (63 authors + 63 responses + 62 media) = 265 requests
//	bundled    63 of one post + 14 + 63 of one post's details               = 140
//	batched     7 of ten posts + 14 + 7 of ten posts' details               =  28
//
// Posts that a Generator makes up have no media where their number is a multiple of Reading,
// so that of any 63 that follow each other exactly one has none.
//
// Adapters live below this package, one per technology, and do not know each other. The
// caller owns what it opens and closes it.
package feed

// The numbers of a journey.
const (
	// Reading is how many posts one user reads.
	Reading = 63
	// Asking is how often that user's app asks for notices.
	Asking = 14
)
