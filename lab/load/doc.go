// Package load offers load to a system and says what came of it: arrival
// schedules, virtual users, HTTP/1.1 over keep-alive connections, histograms.
//
// It does not look for a capacity, judge an SLO, start a system or watch its
// components: it carries out one Plan and returns one Result. Serve runs it as
// a process of its own, and Process drives such a process from the outside, so
// that what the generator costs is neither the lab's nor the system's.
//
// # How a plan runs
//
//	Plan ─► per scenario:  schedule ─► virtual users ─► connections ─► targets
//	                                        │
//	                                   recorder ─► one Window a second
//	                                        │
//	        observer (each 50 ms):  work in flight, its Trend, the overload stop
//
// Time is one monotonic clock that starts with the load: every intended, sent
// and done time is an offset from it. A schedule is a pure function of the
// plan and its seed, and is produced one arrival at a time, so memory grows
// neither with the length of a plan nor with its rate.
//
// # Who owns what
//
// Run owns every goroutine and returns when all of them have ended. A scenario
// owns its virtual users, a virtual user owns one connection and its buffers,
// the recorder owns the histograms. The only thing that anyone else may do to
// a connection is to close it, when it is overdue or cut off (see fleet).
//
// # What a request may end as
//
// A request ends with a status, or as exactly one of the failures of failure.go.
// All of them are in the latency distributions, as in k6: leaving out what
// failed would hide timeouts. A refused connection is fast, so read Failed
// beside any latency.
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
// Linux, for timers that are exact to microseconds (see alarm).
package load
