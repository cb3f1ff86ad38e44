package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// mostAnswers fit into the 512 bytes of an answer that needs no extension, whatever
	// the name's length. Of a service of more instances each answer has others.
	mostAnswers = 13
	maxMessage  = 512
)

// names is the name server of a network: it answers with the addresses of services, the
// next one first each time, and knows nothing else. Answers may not be kept.
type names struct {
	lookup func(name string) []netip.Addr
	conn   net.PacketConn
	turns  map[string]int // of serve alone
	served sync.WaitGroup
}

// ServeNames begins to answer instances that ask for a name. lookup says which addresses
// it has now; it is called by one goroutine, until Close.
func (n *Network) ServeNames(lookup func(string) []netip.Addr) error {
	s := &names{lookup: lookup, turns: map[string]int{}}
	address := netip.AddrPortFrom(n.address(nameServer), 53)
	err := n.bridge.Do(func() (err error) {
		s.conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
		return err
	})
	if err != nil {
		return fmt.Errorf("start its name server: %w", err)
	}
	n.names = s
	s.served.Go(s.serve)
	return nil
}

func (s *names) close() error {
	err := s.conn.Close()
	s.served.Wait()
	return err
}

// serve answers until it is closed.
func (s *names) serve() {
	var question [maxMessage]byte
	for {
		n, from, err := s.conn.ReadFrom(question[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an earlier answer was refused
		}
		if answer, err := s.answer(question[:n]); err == nil { // else it is no question
			_, _ = s.conn.WriteTo(answer, from) // who does not get it asks again
		}
	}
}

// answer is the answer to a message.
func (s *names) answer(message []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	if header.Response {
		return nil, errors.New("it is an answer itself")
	}
	addresses := s.next(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Type)
	header = dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true}
	if addresses == nil {
		header.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, maxMessage), header)
	b.EnableCompression()
	errs := []error{b.StartQuestions(), b.Question(q), b.StartAnswers()}
	if q.Type == dnsmessage.TypeA {
		for _, a := range addresses {
			h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
			errs = append(errs, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.Finish()
}

// next are the addresses of a name, in turn; nil for a name that there is not. Only
// questions for them take a turn: resolvers ask for other types beside.
func (s *names) next(name string, t dnsmessage.Type) []netip.Addr {
	all := s.lookup(name)
	if len(all) == 0 {
		return nil
	}
	turn := s.turns[name] % len(all)
	if t == dnsmessage.TypeA {
		s.turns[name] = turn + 1
	}
	turned := append(append(make([]netip.Addr, 0, len(all)), all[turn:]...), all[:turn]...)
	return turned[:min(len(turned), mostAnswers)]
}
