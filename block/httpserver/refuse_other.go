//go:build !linux

package httpserver

import "net"

// gate is a listening socket that no longer takes new connections.
type gate struct{}

// refuse would stop new connections ahead of the listener. There is no portable
// way: connections that wait to be accepted when it closes are reset.
func refuse(net.Listener) (*gate, bool) { return nil, false }

func (*gate) backlog() int { return 0 }
