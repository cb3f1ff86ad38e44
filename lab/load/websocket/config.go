package websocket

import (
	"crypto/tls"
	"math"
	"net/netip"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
)

// Placeholder is what a message's id takes the place of.
const Placeholder = "{id}"

// MessageLimit is the largest message that a client takes, in bytes. A larger
// one ends the connection as a failure.Protocol.
const MessageLimit = 1 << 20

// Config says what the clients do: what the plan says, which lab/experiment has checked,
// and what one run adds.
type Config struct {
	// The Message must hold Placeholder, unless Deliver is load.DeliverNone.
	// SlowRate is 1 at least.
	load.WebSocket

	// URLs are the servers, ws:// or wss://. Clients are dealt to them in turn.
	URLs []string
	// Feeds are the sources of the placeholders' values; nil if there are none.
	Feeds *feed.Set
	// Given are values of placeholders that do not change, by name.
	Given map[string]string
	// LocalIP is the address that client i connects from, see load.Plan.LocalIP; nil
	// leaves the choice to the system.
	LocalIP func(i int) netip.Addr
	// TLS is how wss servers are spoken to; nil trusts whom the machine trusts.
	TLS *tls.Config

	// Clients is the most clients that SetClients will ask for. The last
	// SlowClients of them are slow.
	Clients int
	// Loops is how many threads read the connections, 1 at least.
	Loops int
	// JoinAfter is how long after its handshake a client is a member for
	// load.DeliverAll where WebSocket.Joined does not say so: servers subscribe a client after they have answered its
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

	// From is when the measured part begins: messages intended before are not in Stats.
	From time.Duration
	// Now is the time on the run's clock. It never goes back.
	Now func() time.Duration
	// Record takes every Outcome. It is called from many goroutines at once,
	// also with locks held: it must not call the Group, nor block for long.
	Record func(Outcome)
}

// The steps that an Outcome can be of.
const (
	StepConnect = iota
	StepMessage
	StepSession // a connection that was ended or lost: Intended and Sent are when it was opened
	StepAck
	StepPing
	StepLogin
	StepRefused // a message that was not accepted: it is due nowhere, and has no ack
)

// Outcome is what came of one connect, of one message's delivery to one
// client, of an ack or a refusal, a ping, a login, or of a session that was ended. Response time is Done - Intended, service time Done - Sent.
type Outcome struct {
	Step   int
	Client int // who connected; where the message was due
	// Intended is when the schedule wanted it, Sent when it was begun.
	Intended, Sent, Done time.Duration
	// Dropped messages were never sent: for as long as Timeout, or to the end,
	// the client had no connection or an earlier message was still being
	// written. Sent and Done are then when it was given up.
	Dropped bool
	// Waited messages were sent after their time for that reason, and connects because
	// the server had not answered those before. One that is late and has not waited is
	// the generator's doing.
	Waited bool
	// Status is that of the HTTP answer to the handshake, 101 if it succeeded;
	// 0 for messages and where there was no answer.
	Status int
	// Failed says how it ended if not well, and Err why, in words.
	Failed failure.Kind
	Err    error
}

// sends says whether any client sends.
func (c *Config) sends() bool { return c.Rate > 0 && c.Senders > 0 }

// tracked says whether messages are waited for.
func (c *Config) tracked() bool { return c.sends() && c.Deliver != load.DeliverNone }

// answered says whether acks are waited for.
func (c *Config) answered() bool { return c.sends() && c.Ack != "" }

// mostUnderWay is how many messages of one sender can be outstanding: those of
// twice the Timeout, because what waited for as long as Timeout may be sent in
// one go, and six standard deviations of a load.Poisson count more.
func (c *Config) mostUnderWay() int {
	mean := 2 * c.Rate * c.Timeout.Seconds()
	return int(min(mean+6*math.Sqrt(mean)+16, 1<<20))
}
