// Package chat is the chat of live shows. Everybody who watches a stream is in its room, and
// what one says all see, in one order.
//
// A room is a log, a viewer is a cursor. A message has an offset in its room's log from the
// moment it is durable, and no viewer has a queue: what a viewer has not seen yet is what
// lies between its cursor and the end of the log. So the history that who joins sees, what is
// missed during a lost connection, and what somebody is told who is too slow for its room are
// all one read, see Room; and memory is bounded by rooms and not by viewers.
//
//	viewer ── send ──► hub ──► log: offset, sync ──► ack
//	                                     │
//	viewers ◄── frame, made once ◄── Room ◄──┘
//
// The root package has the domain and what is on the wire; hub has the connections, logstore
// the durable log, and serve makes a server of them. Where several servers share a log it is in
// topics, broadcast and registry, see serve/cluster; messagestore has what serve/sink stores for good.
package chat
