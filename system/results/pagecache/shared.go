package pagecache

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
)

// Corrections are told twice: by a message, which all who listen at that moment hear,
// and by a journal in Redis, in which servers look every so often for what they
// did not hear, because their connection was broken or Redis slow.
const (
	// journalKey is a sorted set: key of a page, by the moment of its last
	// correction in microseconds since 1970.
	journalKey = "results.corrected:1"
	// JournalEvery is how often a server looks.
	JournalEvery = 5 * time.Second
	// journalOverlap is how much further back it looks than to its last look:
	// more than clocks differ.
	journalOverlap = time.Minute
	// journalTimeout bounds one call; nobody waits for it but a correction.
	journalTimeout = time.Second
)

// connect makes a connection for the journal alone. Redis must be there.
func connect(cfg rediscache.Config) (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{cfg.Addr}, Username: cfg.Username, Password: cfg.Password,
		ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		Dialer:           net.Dialer{Timeout: journalTimeout},
		ConnWriteTimeout: 2 * journalTimeout, // a connection that is silent for longer is dead
		// A call is a line; what is read may be a few thousand.
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 4,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to redis at %s: %w", cfg.Addr, err)
	}
	return client, nil
}

// note writes a correction into the journal, and takes out what is older than any
// page.
func note(ctx context.Context, client rueidis.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	now := time.Now()
	results := client.DoMulti(ctx,
		client.B().Zadd().Key(journalKey).ScoreMember().ScoreMember(float64(now.UnixMicro()), key).Build(),
		client.B().Zremrangebyscore().Key(journalKey).Min("-inf").Max(micros(now.Add(-MaxAge))).Build(),
		client.B().Pexpire().Key(journalKey).Milliseconds(MaxAge.Milliseconds()).Build(),
	)
	for _, result := range results {
		if err := result.Error(); err != nil {
			return fmt.Errorf("note the correction: %w", err)
		}
	}
	return nil
}

func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

// Shared is the tier of pages in Redis, as a server has it. Redis need not run when
// it is opened. Run reads the journal; without Run corrections are heard as
// messages only.
type Shared struct {
	*rediscache.Tier

	cfg    rediscache.Config
	every  time.Duration
	drop   atomic.Pointer[func(key string)]
	client rueidis.Client // of Run; nil until Redis answered
	since  time.Time      // of Run: the journal was read up to here
}

var _ cache.Remote = (*Shared)(nil)

// OpenShared opens the tier in the Redis that the text names. The caller must Close
// it, after Run has returned and after the cache.
func OpenShared(ctx context.Context, redisURL string, registerer prometheus.Registerer) (*Shared, error) {
	cfg, err := TierConfig(redisURL, registerer)
	if err != nil {
		return nil, err
	}
	// No lease: it would add two round trips to every miss, and save at most one
	// query of a third of a millisecond for each server but one.
	tier, err := rediscache.New(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the shared cache: %w", err)
	}
	return &Shared{Tier: tier, cfg: cfg, every: JournalEvery, since: time.Now()}, nil
}

// Watch implements cache.Remote. Messages and journal call drop, perhaps at the same
// time.
func (s *Shared) Watch(drop func(key string)) {
	s.drop.Store(&drop)
	s.Tier.Watch(drop)
}

// Run reads the journal every JournalEvery until ctx ends. It returns nil: while Redis
// is away there is nothing to read, and what was written meanwhile is read after.
func (s *Shared) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.catchUp(ctx)
		}
	}
}

// catchUp drops what was corrected since the last time. If Redis does not answer, the
// next call makes up for it; the tier counts that Redis is away.
func (s *Shared) catchUp(ctx context.Context) {
	if s.client == nil {
		client, err := connect(s.cfg)
		if err != nil {
			return
		}
		s.client = client
	}
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	keys, err := s.client.Do(timed, s.client.B().Zrangebyscore().Key(journalKey).
		Min(micros(s.since.Add(-journalOverlap))).Max("+inf").Build()).AsStrSlice()
	drop := s.drop.Load()
	if err != nil || drop == nil {
		return
	}
	for _, key := range keys {
		(*drop)(key)
	}
	s.since = began
}

// Close ends the connections.
func (s *Shared) Close() error {
	if s.client != nil {
		s.client.Close()
	}
	return s.Tier.Close()
}
