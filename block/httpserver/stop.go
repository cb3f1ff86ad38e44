package httpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/block/pause"
)

// Stopping without losing a request
//
// The promise: a client that could connect gets a whole answer to each request
// that it sends, until an answer or the end of the stream has told it that the
// connection is over. The only failure that it may see is that a new connection
// is refused. (A client that pipelines, sending a second request before the first
// is answered, loses what it sent behind the answer that says close; HTTP/1.1
// makes such a client send it again.)
//
// A request can be lost in five places, and each step below closes one or two.
//
//	(1) on an idle connection, in flight or already in our receive buffer,
//	    when the connection is closed
//	(2) on a connection whose answer promised to keep it alive and which is
//	    then closed
//	(3) on a connection that the kernel has completed and nobody has accepted:
//	    closing the listener resets it, although connect succeeded
//	(4) on a connection in the middle of its handshake at that moment
//	(5) in a handler that is cut
//
// Steps
//
//	draining    Draining turns true, for the readiness probe. Every answer from
//	            here on says Connection: close (2), and fasthttp closes the
//	            connection after it. The server accepts and answers as before
//	            for the Drain time. Busy connections wind up in this time,
//	            request by request, and new ones serve one request each.
//	no more     The kernel is told to refuse new connections while the socket still
//	            listens (refuse_linux.go): at connect, where a client can go
//	            elsewhere, and at once. Handshakes under way may finish (4), the
//	            queue of completed connections is accepted until it is empty
//	            (3), then the listener closes. If it only closed, whoever connects
//	            between the last accept and the close would be reset; while
//	            answers say close, clients reconnect for each request, so at a
//	            few thousand requests a second that happens in every few stops.
//	finish      A connection that has waited for its next request for all of
//	            the Drain time, or for minGrace if that is longer, is hung up
//	            on: shutdown(SHUT_RD), not close. On Linux reads then still
//	            return what has arrived and the end of the stream only after
//	            it, so a request in the receive buffer is answered (1). What
//	            remains is a request that arrives in the microseconds between
//	            that last read and the close, or is under way on the network
//	            just then: the protocol has no answer to it, and clients are
//	            made to retry it. A connection with a request on it is
//	            left alone (5).
//	deadline    StopTimeout after draining, what is still open is closed.
//
// What this relies on in fasthttp v1.73.0, read in server.go and workerpool.go
//
//   - Serve returns nil when Accept fails with net.ErrClosed's text, having
//     passed every connection that it accepted to a worker; workers go on.
//   - serveConn asks ctx.Response's ConnectionClose after the handler, and
//     closes after flushing such an answer.
//   - serveConn treats io.EOF before the first byte of a request as a quiet end.
//   - The ConnState hook is called with StateActive once a request's first byte
//     is there (for a new connection: already before that), and with StateIdle
//     after the answer has been flushed or queued behind a pipelined request;
//     always by the goroutine that serves the connection.
//   - A worker closes the connection after serveConn has returned, so no
//     handler runs on a connection that has been closed by its worker.
//
// ShutdownWithContext is not used, with or without CloseOnShutdown. It closes the
// listener first, so nothing is accepted while it drains (3); it sets
// Connection: close only from then on (2); and it closes connections whose last
// answer is a moment old, although the next request may be in their receive
// buffer (1).
//
// Measured with TestStopLosesNoRequest, stops that lost a request: with
// ShutdownWithContext and CloseOnShutdown after the drain time 76 of 80, with
// the steps above but with a mere close 61 of 80, with all of them 0 of 240.
//
// Refusing at once replaces a filter that dropped new SYN packets, which older
// kernels still get. It lost nothing either, but who connected in the handshake time
// heard nothing, tried again after TCP's second, and was refused only then.

const (
	// minGrace is how long a connection may wait for its next request at least,
	// counted from the start of draining or from its own, before it is hung
	// up on. A request that follows an answer or a handshake at once arrives
	// within a round trip; this is more than one round the world.
	minGrace = 300 * time.Millisecond
	// handshake is how long handshakes under way get, again a long round trip.
	handshake = 200 * time.Millisecond
	// backlogPoll and connPoll are how often the kernel's queue and the open
	// connections are looked at. Looking costs a system call, and a lock with a
	// walk over the open connections.
	backlogPoll = 2 * time.Millisecond
	connPoll    = 10 * time.Millisecond
)

// errCut is what Run returns when connections missed the deadline.
var errCut = errors.New("connections were cut before they finished")

// stop does the steps above. served delivers the result of fasthttp's Serve.
func (s *Server) stop(ctx context.Context, served <-chan error) error {
	s.draining.Store(true)
	began := s.listener.now()
	pause.For(ctx, s.cfg.Drain)

	ctx, cancel := context.WithTimeout(ctx, s.cfg.StopTimeout)
	defer cancel()
	err := s.stopAccepting(ctx)
	if serveErr := <-served; serveErr != nil {
		err = errors.Join(err, fmt.Errorf("accept on %v: %w", s.Addr(), serveErr))
	}
	return errors.Join(err, s.finish(ctx, began))
}

// abandon is stop without a listener.
func (s *Server) abandon(ctx context.Context) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StopTimeout)
	defer cancel()
	return errors.Join(s.Close(), s.finish(ctx, s.listener.now()))
}

// stopAccepting closes the listener when no connection waits in its queue.
func (s *Server) stopAccepting(ctx context.Context) error {
	if gate, ok := refuse(s.listener.inner); ok {
		pause.For(ctx, handshake)
		for ctx.Err() == nil && gate.backlog() > 0 {
			pause.For(ctx, backlogPoll)
		}
	}
	return s.Close()
}

// finish waits until the last connection has ended, hanging up on those that
// wait for a request too long. Draining began at the given instant.
func (s *Server) finish(ctx context.Context, began int64) error {
	grace := int64(max(s.cfg.Drain, minGrace))
	for {
		open := s.listener.connections()
		if len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			for _, c := range open {
				// It is gone either way; a failed close changes nothing.
				_ = c.Close()
			}
			return fmt.Errorf("%d %w (%v after draining)", len(open), errCut, s.cfg.StopTimeout)
		}
		now := s.listener.now()
		for _, c := range open {
			since := c.waiting.Load()
			if since == 0 || c.hungUp || now-max(since, began) < grace {
				continue
			}
			c.hungUp = true
			if err := c.hangUp(); err != nil {
				_ = c.Close() // reset by the client, most likely: nothing to save
			}
		}
		pause.For(ctx, connPoll)
	}
}
