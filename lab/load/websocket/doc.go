// Package websocket is the clients of a WebSocket scenario: they connect at a
// bounded rate, send messages by a schedule, know their messages again
// wherever they arrive, and take down when each was wanted, sent and
// delivered.
//
// It does not decide how many clients there are when (SetClients tells it),
// summarise (Record takes every outcome) or speak HTTP beyond the handshake.
//
// # Who owns what
//
//	SetClients ─► pacer ─► dials (bounded) ─► one reader for each connection ─┐
//	                                                                          ▼
//	schedules ─► lanes (a few senders) ─► ledgers (what is due where) ◄── arrivals
//	                                          │
//	                                sweeper: lost, left, joined
//
// A Group owns all clients and every goroutine; Run returns when all have
// ended. A client is owned by nobody in particular: its state is under its own
// lock, its schedule under its lane's, what it sent under its ledger's. Locks
// are taken in that order: Group, client, lane, then ledger or roster.
//
// # Sending
//
// Each sending client has a schedule of its own, which begins when its first
// connection is open. A lane is one goroutine with a heap of the next times of
// its clients and a timer that is exact to microseconds. It never waits for a
// client: a write that the kernel does not take at once is left to a goroutine
// that exists for as long as the write takes, and the client is out of the heap
// until then. What becomes due meanwhile keeps its intended time and is sent
// afterwards: no queue is kept, because the schedule is one. The same holds
// while a client is between two connections. A message that could not be sent
// for as long as Timeout is dropped.
//
// # Delivery
//
// The text {id} in a message becomes ls-<run>-<sender>-<number>-, and received
// messages of any format are searched for it. One id that stands several times
// in a row in one frame is one delivery.
//
// With load.DeliverAll a message is due at the clients that are members when it is
// sent. A client becomes a member JoinAfter after its handshake and stays one
// until it is taken away. Who cannot connect, or is not told that it has joined, is one all the
// same, and what it was to send is dropped: a server that lets nobody in must not look good. What arrives at others is
// counted (Unexpected) and is no outcome.
//
// A client that is taken away by SetClients stops sending at once, and reads on
// until what was due at that moment has arrived or is lost, so no delivery goes
// unaccounted. A message that the server refuses is due nowhere, and is neither lost nor
// acknowledged: that is an outcome of its own. A client whose connection ended loses what was under way, unless
// it connects again and gets it in time. With Recover it says then what it has seen last, so
// that the server can go on from there.
//
// What a client had sent when its connection ended, and has neither ack nor refusal, nobody has
// accepted: it is lost at all. With Resend the client sends it again when it is back, before
// anything new and with the same id. Its times remain those of the first time. What was acknowledged
// is not sent again: whoever does not get it has lost it.
//
// # Slow clients
//
// A slow client has a small receive buffer and reads at most so many bytes a
// second, the handshake included, as a phone on a bad network does: what it has
// not read stays at the server. What is due at it counts as anywhere else.
//
// # The end
//
// After Stop nobody sends or connects. Deliveries and connects that are under
// way have their grace and are cut off then. All connections are closed with a
// close frame, and without waiting for the answer for longer than a second.
//
// # Memory
//
// An idle client is a goroutine, a socket and about a KiB of buffers: read
// buffers are taken from a pool when there is something to read. What is under
// way costs a few words for each message, and with load.DeliverAll one bit more for
// each client. A ledger holds what its sender can send in twice the
// Timeout. A message that a server sends in pieces is held until it is whole, up
// to MessageLimit.
//
// The framing is gorilla/websocket's. By BenchmarkIdleClients a client that
// sends once in a while takes 8 KiB. For comparison, by the same method: a bare
// TCP connection with a goroutine that reads it 3.6, a gorilla/websocket
// connection alone 9.5 with its usual buffers and 3.9 with small ones, a
// coder/websocket one, whose buffers cannot be chosen, 14.3.
package websocket
