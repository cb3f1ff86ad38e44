// Package fault does things to a system while it is under load, and says what
// came of them: an instance is killed, stopped or paused and comes back, or a
// command does harm that only it knows about.
//
// Carry carries faults out at their times and records when each was asked for,
// done and over. Effects works out from those records and the seconds of the
// load what each fault cost: failed requests, latency before, during and after
// it, and the time until the objectives held again.
//
// How an instance is killed or started is the driver's affair (System); what
// the objectives say is lab/threshold's.
package fault

import (
	"fmt"
	"strings"
	"time"
)

// What can be done, by the names that Docker Compose has for it.
const (
	Kill  = "kill"  // SIGKILL; started again when it is over
	Stop  = "stop"  // the stop signal; started again when it is over
	Pause = "pause" // neither answers nor refuses until it is over
	Exec  = "exec"  // a command
)

// Fault is one thing to do.
type Fault struct {
	At     time.Duration // since the load began, its warm-up included
	Action string
	// Targets are the instances that it is done to, all at once; for Exec the one
	// in whose place the command runs.
	Targets []string
	Command []string      // of Exec
	Within  time.Duration // bounds Exec
	// Ends says that instances come back For after they were asked to go. Else
	// they stay away until the load ends.
	Ends bool
	For  time.Duration
}

// String is the fault in a few words: "kill api-1".
func (f Fault) String() string {
	if f.Action == Exec {
		return Exec + " " + strings.Join(f.Command, " ")
	}
	return f.Action + " " + strings.Join(f.Targets, ", ")
}

// Event is the record of one fault: raw data. Times that did not come are zero.
type Event struct {
	Number  int       `json:"number"` // of the experiment's faults, from 1
	What    string    `json:"what"`
	Action  string    `json:"action"`
	Planned float64   `json:"planned"` // seconds since the load began
	Asked   time.Time `json:"asked"`
	// Done is when all of it was carried out: when the last process was gone, or
	// stood still, or the command had ended.
	Done      time.Time  `json:"done,omitzero"`
	Instances []Affected `json:"instances,omitempty"`
	Said      string     `json:"said,omitempty"` // by the command
}

// Affected is one instance during a fault.
type Affected struct {
	Name string    `json:"name"`
	Done time.Time `json:"done,omitzero"`
	// Undone is when it was asked to come back, Launched when its new process
	// began, and Ready when it answered again (or went on, after a pause).
	Undone   time.Time `json:"undone,omitzero"`
	Launched time.Time `json:"launched,omitzero"`
	Ready    time.Time `json:"ready,omitzero"`
}

// Back is when everything was there again: when the last instance was ready, or
// the command had ended. ok is false if it was not while the load lasted.
func (e *Event) Back() (at time.Time, ok bool) {
	if e.Action == Exec {
		return e.Done, !e.Done.IsZero()
	}
	for _, in := range e.Instances {
		if in.Ready.IsZero() {
			return time.Time{}, false
		}
		if in.Ready.After(at) {
			at = in.Ready
		}
	}
	return at, !at.IsZero()
}

// Error is a fault that could not be carried out.
type Error struct {
	Number int
	What   string
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("fault %d (%s) could not be carried out: %v", e.Number, e.What, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
