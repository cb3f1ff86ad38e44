// Package patterns is a service that shows six patterns for high load, each
// switched off and on by its configuration, so that an experiment can say what
// the pattern is worth, and when it is worth nothing.
//
//	refresh-ahead      movie      GET /getPopularMovies
//	do once            book       GET /getBook/{id}
//	worker pool        job        GET /handle
//	stateless scaling  job        GET /handle, by replicas of the whole service
//	sync to async      event      POST /handle
//	SQL to NoSQL       activity   POST /activities, GET /activities/{id}
//
// Each pattern is a package below this one that knows none of the others; package
// serve puts them together. The mechanisms are blocks: a pattern here only
// configures one and gives it something slow to do. This package holds what all
// patterns share, which is how they answer a request that was not done, and no data.
package patterns

import (
	"net/http"
	"time"

	"loadstone/block/route"
)

// The codes of requests that were not done, beside those of package route.
const (
	MalformedID     route.Code = "malformed_id"     // of a book
	InvalidID       route.Code = "invalid_id"       // of an activity
	InvalidActivity route.Code = "invalid_activity" // it cannot be read
	BadEvent        route.Code = "bad_event"
	TooLarge        route.Code = "too_large"
	NotFound        route.Code = "not_found"
	Conflict        route.Code = "conflict"     // the id is that of something else
	Full            route.Code = "full"         // no room in the queue
	Busy            route.Code = "busy"         // too much is under way; nothing was tried
	Unavailable     route.Code = "unavailable"  // what is needed does not answer
	NotAccepted     route.Code = "not_accepted" // it is not known whether an event was
	Failed          route.Code = "failed"       // a job
)

// soon is when to try again what passes by itself. Queues here are emptied several
// times in it, and a database that is being restarted needs more than one of them
// anyway.
const soon = time.Second

// Errors is how each code is answered. The texts that are left out are said by whoever
// fails: they depend on what was sent or asked for.
var Errors = route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the server made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Text: "there is nothing at this path, or its pattern is off"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "this path has no such method, or its pattern is off"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Text: "the service is starting or stopping", RetryAfter: soon},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again after as many seconds as Retry-After says", RetryAfter: soon},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is no request that this service can read"},

	MalformedID:     {Status: http.StatusBadRequest},
	InvalidID:       {Status: http.StatusBadRequest},
	InvalidActivity: {Status: http.StatusBadRequest},
	BadEvent:        {Status: http.StatusBadRequest},
	TooLarge:        {Status: http.StatusRequestEntityTooLarge},
	NotFound:        {Status: http.StatusNotFound},
	Conflict:        {Status: http.StatusUnprocessableEntity, Text: "an event with another key or body was stored with this id: take a new one"},
	Full:            {Status: http.StatusServiceUnavailable, Text: "the queue of events is full: send this one again, with its id", RetryAfter: soon},
	Busy:            {Status: http.StatusServiceUnavailable, RetryAfter: soon},
	Unavailable:     {Status: http.StatusServiceUnavailable, RetryAfter: soon},
	NotAccepted:     {Status: http.StatusServiceUnavailable, Text: "it is not known that the event was accepted: send it again, with its id", RetryAfter: soon},
	Failed:          {Status: http.StatusInternalServerError, Text: "the job failed"},
}
