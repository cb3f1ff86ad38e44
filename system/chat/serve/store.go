package serve

import (
	"context"
	"time"

	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/serve/cluster"
)

// streams are those that there are.
type streams interface {
	Streams() []chat.Stream
	Stream(id int64) (chat.Stream, error)
	LiveStream(host string) (id int64, live bool)
	AddStream(s chat.Stream) error
	StartStream(s chat.Stream) (chat.Stream, error)
	EndStream(id int64, at time.Time) error
	// Time is that of what is said in a stream now.
	Time(id int64) time.Time
}

// store is where the streams and the messages of their rooms are: a log of this server's own, or one
// that it shares with others.
type store interface {
	streams
	// Epoch names the places that messages have, and Key signs tokens.
	Epoch() chat.Epoch
	Key() []byte
	Ready() bool
	Say(d *chat.Draft) error
	Before(id int64, offset uint64, limit chat.Limit) (found []chat.Encoded, next uint64, err error)
}

// shares reports whether this is one of several servers.
func (c Config) shares() bool { return len(c.Cluster.Topics.Brokers) > 0 }

// openStore opens the log.
func (s *server) openStore(ctx context.Context, parts *service.Service) error {
	if s.cfg.shares() {
		return s.openCluster(ctx, parts)
	}
	c := logstore.DefaultConfig()
	c.Dir, c.Registerer = s.cfg.Data, parts.Registry
	log, err := logstore.Open(ctx, c)
	if err != nil {
		return err
	}
	s.log, s.own = log, log
	parts.Add(service.Component{Name: "log", Run: log.Run, Close: log.Close, Ready: log.Ready})
	return nil
}

// openCluster opens the log that is shared, and has the hub hear of it.
func (s *server) openCluster(ctx context.Context, parts *service.Service) error {
	c := s.cfg.Cluster
	c.Registerer, c.Failed, c.Results = parts.Registry, s.failed, s.heardResult
	log, err := cluster.Open(ctx, c)
	if err != nil {
		return err
	}
	s.log, s.shared = log, log
	parts.Add(service.Component{Name: "log", Run: func(ctx context.Context) error { return log.Run(ctx, s.hub) }, Close: log.Close, Ready: log.Ready})
	return nil
}
