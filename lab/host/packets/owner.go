package packets

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/host/sockets"
)

// refreshed is how often the tables of sockets are read again for a connection that they
// do not have, at most, and seldom how many times as long as reading them takes, which is
// the longer the more connections there are: it may cost half a per cent of a core.
const (
	refreshed = 2 * time.Second
	seldom    = 200
)

// firstEphemeral is the lowest port that the kernel gives to clients, where it does not say.
const firstEphemeral = 32768

// owners know whose connections are. All clients on the loopback interface have the same
// address, so it is the process that has the socket open which tells them apart.
type owners struct {
	processes func() map[string][]int

	read, had time.Time               // when reading them began, and when it was over
	took      time.Duration           // to read them
	client    map[sockets.Pair]string // by the client's end
	nobodys   map[sockets.Pair]bool   // those that are no target's
	listening map[netip.AddrPort]bool
	ephemeral uint16
}

// of is the target that has the client's end of a connection; empty if none has. That none has is known
// only if the connection was open from before the tables of sockets were read until after that.
func (o *owners) of(client, server endpoint, opened, closed int64) (name string, known bool) {
	pair := sockets.Pair{Local: client.address(), Remote: server.address()}
	if name, known = o.client[pair]; known || o.nobodys[pair] {
		return name, true
	}
	if o.read.UnixNano() <= opened || o.had.UnixNano() >= closed {
		return "", false
	}
	if len(o.nobodys) >= mostConnections || o.nobodys == nil {
		o.nobodys = make(map[sockets.Pair]bool)
	}
	o.nobodys[pair] = true
	return "", true
}

// anew is told that the two ends were connected anew then, so that it may be somebody else's. Tables
// that were read since have the connection as it is: packets come later than they.
func (o *owners) anew(client, server endpoint, opened int64) {
	pair := sockets.Pair{Local: client.address(), Remote: server.address()}
	delete(o.nobodys, pair)
	if o.read.UnixNano() <= opened {
		delete(o.client, pair)
	}
}

// forget is told that the time of day was set: what is known is of no time then.
func (o *owners) forget() { o.read, o.client, o.nobodys = time.Time{}, nil, nil }

// serves says whether the one endpoint is a server's and the other a client's; known is
// false where that cannot be told.
func (o *owners) serves(one, other endpoint) (is, known bool) {
	if o.ephemeral == 0 {
		o.ephemeral = ephemeral()
	}
	if a, b := one.port < o.ephemeral, other.port < o.ephemeral; a != b {
		return a, true
	}
	a, b := o.listens(one), o.listens(other)
	if a == b {
		o.refresh()
		a, b = o.listens(one), o.listens(other)
	}
	return a, a != b
}

func (o *owners) listens(e endpoint) bool {
	return o.listening[e.address()] ||
		o.listening[netip.AddrPortFrom(netip.IPv4Unspecified(), e.port)] || o.listening[netip.AddrPortFrom(netip.IPv6Unspecified(), e.port)]
}

func (o *owners) refresh() {
	began := time.Now()
	if began.Sub(o.read) < max(refreshed, seldom*o.took) {
		return
	}
	defer func() { o.read, o.had, o.took = began, time.Now(), time.Since(began) }() // of what is opened or closed meanwhile they may not tell
	listening, connected := sockets.Tables("/proc/net")
	o.listening = map[netip.AddrPort]bool{}
	for _, address := range listening {
		o.listening[address] = true
	}
	o.client = make(map[sockets.Pair]string, len(connected))
	own := func(name string, id int) {
		for inode := range sockets.Open(fmt.Sprintf("/proc/%d/fd", id)) {
			if pair, ok := connected[inode]; ok {
				o.client[pair] = name
			}
		}
	}
	own(Watcher, os.Getpid())
	if o.processes == nil {
		return
	}
	for name, ids := range o.processes() {
		for _, id := range ids {
			own(name, id)
		}
	}
}

// ephemeral is the lowest port that the kernel gives to clients.
func ephemeral() uint16 {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		low, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
		if n, err := strconv.ParseUint(low, 10, 16); err == nil && n > 0 {
			return uint16(n)
		}
	}
	return firstEphemeral
}
