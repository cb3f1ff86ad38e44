// Package engine carries out one load.Plan and returns one load.Result: event
// loops, virtual users, connections, requests, and the recording of what came of
// them.
//
// It decides nothing about the load but how to send it: what is to be sent when
// is package load's. Package generator runs it in a process of its own, so that
// what generating costs is neither the lab's nor the system's.
//
// # How a plan runs
//
//	Plan ─► schedules ─► event loops: users ─► links ─► targets
//	                          │
//	                       recorder ─► one Window a second
//	                          │
//	        observer (each 50 ms):  work in flight, its Trend, the overload stop
//
// # Who owns what
//
// Run owns every goroutine and returns when all of them have ended. A scenario
// is shared out to the event loops in lanes; an event loop owns its lanes, their
// virtual users, and their links; a user is a state machine that goes through
// the steps of its script, one iteration after the other. A link is how a user
// gets to its target: a connection (HTTP/1.1 without TLS, spoken here), or a
// remote (everything else, spoken by package httpclient in a goroutine). Where
// the plan caps connections, users take turns on slots. Clients of WebSocket
// scenarios are package websocket's. The recorder owns the histograms.
//
// # What a request may end as
//
// A request ends with a status, or as exactly one kind of package failure. All
// of them are in the latency distributions, as in k6: leaving out what failed
// would hide timeouts. A refused connection is fast, so read Failed beside any
// latency.
//
// A request is never sent twice: what a user of the system would have seen as
// an error is an error here. The one thing that is repaired silently is a
// keep-alive connection that the server closed while it was idle, or after an
// answer with Connection: close, noticed before a byte of the next request was
// written. The time that a new connection takes is part of that request; only
// a virtual user's first connection is opened ahead of its first request.
//
// # What it needs
//
// Linux, for epoll and timers that are exact to microseconds.
package engine
