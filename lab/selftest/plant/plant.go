// Package plant is one small HTTP service from which the systems of the
// self-test are made. What it costs to answer is planted: CPU time, waiting, a
// pool, a lock, a cache that is too small, a queue with a slow consumer, a slow
// replica. Everything else about it is meant to cost next to nothing, so that
// what limits a system of plants is known beforehand.
//
// It is no model of a good service, and knows nothing of who measures it.
//
// A request takes this way, through the parts that Config turns on:
//
//	CPU, garbage ─► lock (CPU, sleep) ─► slots ( sleep, disk ) ─► cache ─► pool ( calls to other plants ) ─► wire ─► answer
//	                                                                └ hit: no calls                 queue: put, or 503 if full
//	       or CPU ─► stage: put, or wait until something fits ─► answer; its worker makes the calls
//
// A request's key is the number in the query (?key=7), 0 without one.
package plant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// Config says what is planted. Times are in milliseconds, because it is written
// as JSON in a Compose file. The parts that are nil are not there.
type Config struct {
	Listen string `json:"listen"` // host:port of the service
	Admin  string `json:"admin"`  // host:port of metrics and controls

	// CPUMillis is the CPU time that a request takes before all else, and
	// Workers how many requests may use CPU at a time: 1 is a single-threaded
	// service.
	CPUMillis float64 `json:"cpu_ms"`
	Workers   int     `json:"workers"`
	// Thread has all of it used by one thread, as an event loop does.
	Thread bool `json:"thread,omitempty"`
	// SleepMillis is how long a request waits for nothing, beside all others or, with
	// Slots, beside so many. Nothing tells of these slots.
	SleepMillis float64 `json:"sleep_ms"`
	Slots       int     `json:"slots,omitempty"`
	// BodyBytes is the length of the answer, if no downstream service gave one.
	BodyBytes int `json:"body_bytes"`

	Slow    *Slow    `json:"slow,omitempty"`
	Garbage *Garbage `json:"garbage,omitempty"`
	Disk    *Disk    `json:"disk,omitempty"`

	Lock  *Lock  `json:"lock,omitempty"`
	Cache *Cache `json:"cache,omitempty"`
	Pool  *Pool  `json:"pool,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Wire  *Wire  `json:"wire,omitempty"`
	Queue *Queue `json:"queue,omitempty"`
	Stage *Stage `json:"stage,omitempty"`
}

// Slow makes one replica need more CPU time than the others.
type Slow struct {
	// Peers are the addresses of all replicas, separated by commas, without
	// ports; the one at Index, from 0, is the slow one.
	Peers  string  `json:"peers"`
	Index  int     `json:"index"`
	Factor float64 `json:"factor"` // of CPUMillis
}

// Garbage is memory that is kept, so much that little is left below the runtime's limit,
// and what each request makes and drops: the collector is never done.
type Garbage struct {
	LimitBytes int64 `json:"limit_bytes"` // of the runtime (GOMEMLIMIT)
	KeptBytes  int   `json:"kept_bytes"`
	EachBytes  int   `json:"each_bytes"` // of a request
}

// Disk has each request write so much to a file and wait until it is on the disk, one
// request at a time.
type Disk struct {
	Bytes int `json:"bytes"`
}

// Lock is the one lock that every request holds for a while.
type Lock struct {
	CPUMillis   float64 `json:"cpu_ms"`   // CPU time used under it
	SleepMillis float64 `json:"sleep_ms"` // time slept under it
}

// Cache keeps answers by key in this process's memory, the least recently used
// ones making room.
type Cache struct {
	Bytes      int `json:"bytes"`
	EntryBytes int `json:"entry_bytes"`
}

// Pool bounds how many requests are within their calls at a time. PUT /pool on
// the admin address, with the number as body, changes that.
type Pool struct {
	Size int `json:"size"`
}

// Call is a downstream service that every request calls.
type Call struct {
	Hosts  string `json:"hosts"` // addresses of its replicas, separated by commas
	Port   int    `json:"port"`
	Visits int    `json:"visits"` // calls of one request, one after the other
	// ByKey sends a request to the replica that its key belongs to (key modulo
	// replicas); else the replicas take turns.
	ByKey bool `json:"by_key,omitempty"`
	// Uneven sends so many of four calls to the first replica whoever's turn it is.
	Uneven int `json:"uneven,omitempty"`
}

// Wire is a network that carries one answer after the other at a fixed pace.
type Wire struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
}

// Queue takes what a request asks for, answers at once, and has one consumer do
// it later. A request that finds it full is answered 503.
type Queue struct {
	Capacity    int     `json:"capacity"`
	SleepMillis float64 `json:"sleep_ms"` // the consumer's time for one
}

// Stage is a step of a pipeline. A request puts an item into its buffer and is
// answered when it is in: who comes while it is full waits. One worker takes items
// out, works, and hands each on to the plants of Calls, where it may have to
// wait in turn.
type Stage struct {
	Capacity    int     `json:"capacity"` // of the buffer, in items
	SleepMillis float64 `json:"sleep_ms"` // the worker's time for one
}

// DefaultConfig is a plant that answers at once.
func DefaultConfig() Config { return Config{Workers: 2, BodyBytes: 64} }

// Parse reads a Config from JSON over the default. Unknown keys are errors.
func Parse(text string) (Config, error) {
	c := DefaultConfig()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("read what to plant: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("read what to plant: there is more after the object; write one JSON object")
	}
	return c, nil
}

// split reads addresses separated by commas.
func split(hosts string) []string {
	return slices.DeleteFunc(strings.Split(hosts, ","), func(h string) bool { return h == "" })
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// cpu is the CPU time of a request to this replica.
func (c *Config) cpu() time.Duration {
	d := millis(c.CPUMillis)
	if c.Slow == nil {
		return d
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err == nil && slices.Index(split(c.Slow.Peers), host) == c.Slow.Index {
		d = time.Duration(float64(d) * c.Slow.Factor)
	}
	return d
}
