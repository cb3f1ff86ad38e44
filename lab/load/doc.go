// Package load is what a load is and what came of it, as types and pure
// functions: a Plan and whether it is valid, the schedules that it stands for, a
// Result, its Windows, and the Trend of the work in flight.
//
// It sends nothing, and knows neither sockets nor files: package engine carries
// a Plan out, and package generator does so in a process of its own. Both import
// this package, which imports neither, so that whoever only reads a plan or a
// result does not depend on how load is generated. It looks for no capacity and
// judges no SLO.
//
// # Time
//
// The time of a load is monotonic and starts with the load: every intended,
// sent and done time is an offset from it. A schedule is a pure function of the
// plan and its seed, and is produced one arrival at a time, so memory grows
// neither with the length of a plan nor with its rate.
package load
