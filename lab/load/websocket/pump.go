package websocket

import (
	"crypto/tls"
	"io"
	"net"

	"loadstone/block/websocket"
)

// pumped is a connection that a goroutine reads: one with TLS, or of a slow client.
type pumped struct {
	net.Conn         // what is read and written
	sock     *socket // below it
}

func (p *pumped) busy() bool { return p.sock.flushing.Load() }

// pump reads a connection to its end. first is what was read with the handshake's answer.
func (l *link) pump(conn io.Reader, first []byte) {
	g := l.client.group
	err := l.take(first, g.config.Now())
	buf := make([]byte, pumpAtOnce)
	for err == nil {
		var n int
		n, err = conn.Read(buf)
		if n > 0 {
			if wrong := l.take(buf[:n], g.config.Now()); wrong != nil {
				err = wrong
			}
		}
	}
	_ = l.wire.Close() // nothing is left to lose
	l.client.ended(err)
}

// pumpAtOnce is how much a goroutine reads at once, in bytes.
const pumpAtOnce = 2 << 10

// say writes a text. An error means that the connection is broken, as its reader finds too.
func (l *link) say(text []byte) {
	if _, err := l.wire.Write(websocket.AppendMasked(nil, websocket.Text, text, mask())); err != nil {
		l.broken.Store(true)
	}
}

// counted is a TLS connection whose bytes are counted as the application's.
type counted struct {
	*tls.Conn

	count *counters
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count.receivedBytes.Add(uint64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count.sentBytes.Add(uint64(n))
	return n, err
}
