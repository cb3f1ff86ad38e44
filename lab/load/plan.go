package load

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"time"
)

// The protocols that requests are sent by.
const (
	HTTP1 = "http/1.1"
	// HTTP2 is HTTP/2: by ALPN over https, with prior knowledge (h2c) over http.
	HTTP2 = "h2"
)

// Plan is one piece of load, complete: everything that a generator process has
// to know to offer it, and nothing that it would have to ask for. It travels
// to the generator as one line of JSON.
type Plan struct {
	// Targets are the base URLs of the entry service's instances, such as
	// http://127.77.0.2:8080. Connections are dealt to them in turn.
	Targets []string `json:"targets"`

	Scenarios []Scenario `json:"scenarios"`

	// Setup is made once before the load, and Teardown once after it, by one virtual
	// user and at the first target; nil for nothing. Their requests are in no Result. What
	// Setup extracts, placeholders of the scenarios and of Teardown stand for. A request of
	// Setup that fails, or a check that does not hold, ends the load before it begins; what
	// of Teardown fails is a note.
	Setup    *Scenario `json:"setup,omitempty"`
	Teardown *Scenario `json:"teardown,omitempty"`
	// Given are values of placeholders, by name.
	Given map[string]string `json:"given,omitempty"`

	// Seed fixes the arrival schedule and the feeds: the same seed offers the
	// same requests at the same times.
	Seed uint64 `json:"seed"`

	// Warmup is the first part of the load. Its requests are sent and not
	// recorded in the Result.
	Warmup time.Duration `json:"warmup"`

	// Timeout bounds one request, connecting included.
	Timeout time.Duration `json:"timeout"`

	// Protocol is HTTP1 or HTTP2; empty is HTTP1.
	Protocol string `json:"protocol,omitempty"`

	// Protos are .proto files that describe the gRPC services that steps call. Without any,
	// the first target is asked, by server reflection.
	Protos []string `json:"protos,omitempty"`

	// TLS is how https and wss targets are spoken to.
	TLS TLS `json:"tls,omitzero"`

	// Connections caps the connections that are open at once, over all
	// scenarios: a request waits for one to come free, which counts in its
	// response time and not in its service time. Over HTTP/2 the virtual users
	// share that many connections. If it is 0, every virtual user has its own.
	Connections int `json:"connections,omitempty"`

	// LocalIPs are the machine's own addresses that connections come from, in turn
	// over all of them; empty leaves the choice to the system. A prefix shorter than
	// an address stands for all addresses that it covers.
	LocalIPs []netip.Prefix `json:"local_ips,omitempty"`

	// Threads is how many event loops share the load, each on a thread of its
	// own; if it is 0, half the processors, and one at least. Where virtual users take
	// turns on connections each loop has its part of these, and who waits on one loop
	// cannot have another's: then it is one loop if it is 0, so that what is measured does
	// not depend on the number of processors.
	Threads int `json:"threads,omitempty"`

	// Spin has each event loop watch its sockets and the clock without ever
	// sleeping. Sends are then on time to microseconds where the machine's
	// timers are late, as in most virtual machines; it takes a whole processor
	// for each thread, which the system under load must not need.
	Spin bool `json:"spin,omitempty"`

	// Portion is which part of the load is to be offered, and StartAt, on the generator's own
	// clock, when it begins; at once if it is zero.
	Portion Portion   `json:"portion,omitzero"`
	StartAt time.Time `json:"start_at,omitzero"`

	// Explain keeps the beginning of an answer of each status that its step does not
	// expect. Every body is then kept until it is read whole, which a measurement that
	// need not explain itself is better without.
	Explain bool `json:"explain,omitempty"`

	// StopOnOverload ends the load early once the work in flight grows
	// without doubt (see Trend), so that a search does not pay for a rate that
	// has already lost.
	StopOnOverload bool `json:"stop_on_overload"`
}

// TLS says whom to trust. By default it is whom the machine trusts, and the
// certificate must be for the target's host.
type TLS struct {
	// CAFile is a file of PEM certificates to trust in place of the machine's.
	CAFile string `json:"ca_file,omitempty"`
	// ServerName is the name that the certificate must be for, in place of the
	// target's host.
	ServerName string `json:"server_name,omitempty"`
	// InsecureSkipVerify trusts anybody. k6 calls it insecureSkipTLSVerify.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// ThreadCount is how many event loops the plan is shared by.
func (p *Plan) ThreadCount() int {
	n := p.Threads
	switch {
	case n == 0 && p.SharesConnections():
		n = 1
	case n == 0:
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if p.Connections > 0 {
		n = min(n, p.Connections)
	}
	return n
}

// users is the most connections that the plan's virtual users can have.
func (p *Plan) users() int {
	n := 0
	for i := range p.Scenarios {
		if s := &p.Scenarios[i]; s.WebSocket == nil {
			n += s.PeakVUs() * s.Lanes()
		}
	}
	return n
}

// SharesConnections says whether virtual users have to take turns on connections. Over
// HTTP/2 they share them without.
func (p *Plan) SharesConnections() bool {
	return p.Connections > 0 && p.Protocol != HTTP2 && p.Connections < p.users()
}

// LocalIP is the address that connection number i comes from; the zero Addr leaves the
// choice to the system.
func (p *Plan) LocalIP(i int) netip.Addr {
	var total uint64
	for _, prefix := range p.LocalIPs {
		total += addresses(prefix)
	}
	if total == 0 {
		return netip.Addr{}
	}
	at := uint64(i) % total
	for _, prefix := range p.LocalIPs {
		n := addresses(prefix)
		if at < n {
			return nth(prefix, at)
		}
		at -= n
	}
	return netip.Addr{}
}

// ParsePrefix reads an address, such as 127.0.0.2, or a prefix, such as 127.1.0.0/20.
func ParsePrefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// addresses is how many addresses the prefix covers, no more than there are
// connections.
func addresses(p netip.Prefix) uint64 {
	const most = 17 // bits: 131,072, above maxUsers
	return 1 << min(p.Addr().BitLen()-p.Bits(), most)
}

// nth is address number n of those that the prefix covers.
func nth(p netip.Prefix, n uint64) netip.Addr {
	bytes := p.Masked().Addr().As16()
	low := bytes[8:]
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)+n)
	return netip.AddrFrom16(bytes).Unmap()
}

// Length is how long the plan offers load, warm-up included. A replay counts
// as no time, because its log has not been read.
func (p *Plan) Length() time.Duration {
	var end time.Duration
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		end = max(end, s.StartTime+s.Length())
	}
	return end
}
