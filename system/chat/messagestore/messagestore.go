// Package messagestore keeps the messages of a chat of several servers for good, in Cassandra.
//
// A stream is a partition, the newest message first. A message is known by its stream, its time, its
// sender and the sender's id: who stores it again with the same time stores the same row. The messages of a
// call go in batches of one partition each, which a node writes at once.
package messagestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/block/cql"
	"loadstone/system/chat"
)

// table: Cassandra's order of a day, from its end, is what a page of the past asks for.
const table = `CREATE TABLE IF NOT EXISTS %s.messages (
	stream_id bigint, created_at timestamp, id text, sender text, name text, body text, mentions list<text>,
	PRIMARY KEY (stream_id, created_at, id)) WITH CLUSTERING ORDER BY (created_at DESC, id ASC)`

// Config says where the messages are. Start from DefaultConfig.
type Config struct {
	// Cluster is where Cassandra is.
	Cluster cql.Address
	// Batch bounds the rows of a batch, and InFlight the batches of one Store that are under way.
	Batch, InFlight int
}

// DefaultConfig leaves the cluster to the caller.
func DefaultConfig() Config { return Config{Batch: 50, InFlight: 8} }

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if len(c.Cluster.Hosts) == 0 {
		errs = append(errs, errors.New("there is no Cassandra: write "+cql.AddressForm))
	}
	if c.Batch < 1 || c.Batch > 500 {
		errs = append(errs, fmt.Errorf("a batch has %d rows: write 1 to 500", c.Batch))
	}
	if c.InFlight < 1 || c.InFlight > 256 {
		errs = append(errs, fmt.Errorf("%d batches are under way: write 1 to 256", c.InFlight))
	}
	return errors.Join(errs...)
}

// Store is safe for concurrent use.
type Store struct {
	cfg     Config
	session *cql.Session
}

// Open connects, and makes the keyspace and the table if they are not there.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := cql.DefaultConfig()
	c.Cluster, c.Tables = cfg.Cluster, []string{table}
	session, err := cql.Open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open the messages: %w", err)
	}
	return &Store{cfg, session}, nil
}

// Close ends the session.
func (s *Store) Close() { s.session.Close() }

// Durability is what a write waits for.
func (s *Store) Durability() cql.Durability { return s.session.Durability() }

// Store stores messages, all of them or, with an error, perhaps some: store them again.
func (s *Store) Store(ctx context.Context, all []chat.Raw) error {
	batches := map[int64][]chat.Raw{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.InFlight)
	write := func(rows []chat.Raw) { group.Go(func() error { return s.write(ctx, rows) }) }
	for i := range all {
		stream := all[i].Stream
		if batches[stream] = append(batches[stream], all[i]); len(batches[stream]) == s.cfg.Batch {
			write(batches[stream])
			delete(batches, stream)
		}
	}
	for _, rows := range batches {
		write(rows)
	}
	return group.Wait()
}

// rowID: an id has no slash.
func rowID(r *chat.Raw) string { return r.Sender + "/" + r.ID }

// write writes the rows of one partition.
func (s *Store) write(ctx context.Context, rows []chat.Raw) error {
	return s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		const insert = "INSERT INTO messages (stream_id, created_at, id, sender, name, body, mentions) VALUES (?, ?, ?, ?, ?, ?, ?)"
		batch := session.Batch(gocql.UnloggedBatch)
		for i := range rows {
			r := &rows[i]
			batch.Entries = append(batch.Entries, gocql.BatchEntry{
				Stmt: insert, Args: []any{r.Stream, time.UnixMilli(r.At), rowID(r), r.Sender, r.Name, r.Text, r.Mentions}, Idempotent: true,
			})
		}
		return batch.ExecContext(ctx)
	})
}

// Newest returns the newest messages of a stream before a time, the newest first.
func (s *Store) Newest(ctx context.Context, stream int64, before time.Time, most int) (all []chat.Raw, err error) {
	err = s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		rows := session.Query("SELECT created_at, id, sender, name, body, mentions FROM messages WHERE stream_id = ? AND created_at < ? LIMIT ?", stream, before, most).
			Idempotent(true).IterContext(ctx)
		var at time.Time
		var id string
		for {
			r := chat.Raw{Stream: stream}
			if !rows.Scan(&at, &id, &r.Sender, &r.Name, &r.Text, &r.Mentions) {
				break
			}
			r.At, r.ID = at.UnixMilli(), id[min(len(id), len(r.Sender)+1):]
			all = append(all, r)
		}
		return rows.Close()
	})
	return all, err
}
