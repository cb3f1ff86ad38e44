package websocket

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// Placeholder is what a message's id takes the place of.
const Placeholder = "{id}"

// MessageLimit is the largest message that a client takes, in bytes. A larger
// one ends the connection as a failure.Protocol.
const MessageLimit = 1 << 20

// mostMessage is the longest Message, in bytes, before its ids are in it: it must
// come back within MessageLimit, with what a server wraps around it.
const mostMessage = MessageLimit / 2

// The bounds of rates, per second. A million is far above what one connection
// carries, and keeps gaps well above a nanosecond; one in twelve days keeps sums
// of gaps within what a Duration holds.
const (
	leastRate = 1e-6
	mostRate  = 1e6
)

// Config says what the clients do: what the plan says, and what one run adds.
type Config struct {
	// The Message must hold Placeholder, unless Deliver is load.DeliverNone.
	// SlowRate is 1 at least.
	load.WebSocket

	// URLs are the servers, ws:// or wss://, without a path. Clients are dealt
	// to them in turn.
	URLs []string
	// TLS is how wss servers are spoken to; nil trusts whom the machine trusts.
	TLS *tls.Config

	// Clients is the most clients that SetClients will ask for. The last
	// SlowClients of them are slow.
	Clients int
	// JoinAfter is how long after its handshake a client is a member for
	// load.DeliverAll: servers subscribe a client after they have answered its
	// handshake, and a message sent in between would be called lost.
	JoinAfter time.Duration
	// Arrivals is load.Poisson or load.Uniform. Evenly spaced messages begin at a
	// time that is drawn.
	Arrivals string
	// Seed fixes the schedules and the pauses before reconnecting.
	Seed uint64
	// Timeout bounds one connect, one delivery, and how long a message may wait
	// to be sent.
	Timeout time.Duration

	// Now is the time on the run's clock. It never goes back.
	Now func() time.Duration
	// Record takes every Outcome. It is called from many goroutines at once,
	// also with locks held: it must not call the Group, nor block for long.
	Record func(Outcome)
	// Ended takes the end of every connection that the Group did not end
	// itself. As for Record; nil if nobody wants to know.
	Ended func(Ending)
}

// The steps that an Outcome can be of.
const (
	StepConnect = 0
	StepMessage = 1
)

// Outcome is what came of one connect or of one message's delivery to one
// client. Response time is Done - Intended, service time Done - Sent.
type Outcome struct {
	Step   int // StepConnect or StepMessage
	Client int // who connected; where the message was due
	// Intended is when the schedule wanted it, Sent when it was begun.
	Intended, Sent, Done time.Duration
	// Dropped messages were never sent: for as long as Timeout, or to the end,
	// the client had no connection or an earlier message was still being
	// written. Sent and Done are then when it was given up.
	Dropped bool
	// Waited messages were sent after their time for that reason. One that is
	// late and has not waited is the generator's doing.
	Waited bool
	// Status is that of the HTTP answer to the handshake, 101 if it succeeded;
	// 0 for messages and where there was no answer.
	Status int
	// Failed says how it ended if not well, and Err why, in words.
	Failed failure.Kind
	Err    error
}

// Ending is the end of one connection by the server or by a failure.
type Ending struct {
	Client int
	At     time.Duration
	// Code is the close code of the server's close frame; 1006 if none came.
	Code int
	// Kind is None for an orderly close (1000, 1001, 1005), Protocol for another code or
	// bytes that break the protocol, EOF for no close frame, else Reset.
	Kind failure.Kind
	Err  error
}

// Validate returns everything that is wrong with the configuration, or nil.
func (c *Config) Validate() error {
	var f faults
	c.checkServers(&f)
	c.checkClients(&f)
	c.checkMessages(&f)
	f.addf(c.Timeout <= 0, "timeout of %v: give above 0", c.Timeout)
	f.addf(c.Now == nil || c.Record == nil, "Now and Record must be given")
	return errors.Join(f...)
}

// faults is what is wrong.
type faults []error

// addf adds a fault if it is one.
func (f *faults) addf(is bool, format string, args ...any) {
	if is {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func (c *Config) checkServers(f *faults) {
	f.addf(len(c.URLs) == 0, "no URL: give one such as ws://127.0.0.1:8080")
	for _, raw := range c.URLs {
		u, err := url.Parse(raw)
		f.addf(err != nil || u.Host == "" || u.User != nil || u.Scheme != "ws" && u.Scheme != "wss",
			"URL %q: write ws://host:port or wss://host:port", raw)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		f.addf(slices.Contains(reserved, textproto.CanonicalMIMEHeaderKey(name)),
			"header %q belongs to the handshake: leave it out (subprotocols have a field of their own)", name)
	}
}

// The rates are compared so that what is no number is refused too.
func (c *Config) checkClients(f *faults) {
	f.addf(c.Clients < 1, "%d clients: give 1 or more", c.Clients)
	f.addf(c.Senders < 0 || c.Senders > c.Clients, "%d senders of %d clients: give 0 to %d", c.Senders, c.Clients, c.Clients)
	f.addf(c.SlowClients < 0 || c.SlowClients > c.Clients, "%d slow clients of %d: give 0 to %d", c.SlowClients, c.Clients, c.Clients)
	slow := c.SlowRate >= 1 && c.SlowRate <= math.MaxInt32
	f.addf(c.SlowClients > 0 && !slow, "slow rate of %v bytes/s: give 1 to %d", c.SlowRate, math.MaxInt32)
	paced := c.ConnectRate > 0 && c.ConnectRate <= mostRate
	f.addf(!paced, "connect rate of %v/s: give above 0 to %v", c.ConnectRate, mostRate)
	f.addf(c.JoinAfter < 0, "join after %v: give 0 or more", c.JoinAfter)
	f.addf(c.Reconnect && (c.ReconnectAfter <= 0 || c.ReconnectMost < c.ReconnectAfter),
		"reconnect after %v and at most %v: give the first above 0 and the second no less", c.ReconnectAfter, c.ReconnectMost)
}

func (c *Config) checkMessages(f *faults) {
	rated := c.Rate == 0 || c.Rate >= leastRate && c.Rate <= mostRate
	f.addf(!rated, "rate of %v messages/s: give 0, or %v to %v", c.Rate, leastRate, mostRate)
	f.addf(!slices.Contains([]string{load.DeliverEcho, load.DeliverAll, load.DeliverNone}, c.Deliver),
		"deliver %q: write %s, %s or %s", c.Deliver, load.DeliverEcho, load.DeliverAll, load.DeliverNone)
	f.addf(c.sends() && c.Deliver != load.DeliverNone && !strings.Contains(c.Message, Placeholder),
		"message without %s: put it where it comes back", Placeholder)
	f.addf(len(c.Message) > mostMessage, "message of %d bytes: %d at most", len(c.Message), mostMessage)
	f.addf(c.Arrivals != load.Poisson && c.Arrivals != load.Uniform, "arrivals %q: write %s or %s", c.Arrivals, load.Poisson, load.Uniform)
}

// reserved are the headers that the handshake itself sets.
var reserved = []string{
	"Upgrade", "Connection", "Sec-Websocket-Key", "Sec-Websocket-Version",
	"Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
}

// sends says whether any client sends.
func (c *Config) sends() bool { return c.Rate > 0 && c.Senders > 0 }

// tracked says whether messages are waited for.
func (c *Config) tracked() bool { return c.sends() && c.Deliver != load.DeliverNone }

// mostUnderWay is how many messages of one sender can be outstanding: those of
// twice the Timeout, because what waited for as long as Timeout may be sent in
// one go, and six standard deviations of a load.Poisson count more.
func (c *Config) mostUnderWay() int {
	mean := 2 * c.Rate * c.Timeout.Seconds()
	return int(min(mean+6*math.Sqrt(mean)+16, 1<<20))
}
