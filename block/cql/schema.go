package cql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// migrate makes keyspace and tables with a session of its own: one that has a
// keyspace can only be had once that is there, and a schema takes longer than a row.
func (s *Session) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	session, err := gocql.NewSession(*s.cfg.clusterConfig(schemaTimeout))
	if err != nil {
		return fmt.Errorf("connect to Cassandra: %w", err)
	}
	defer closeSession(session)
	to := s.cfg.Cluster
	// Looking first spares a start the nodes' agreement about a change that is none.
	found, err := replication(ctx, session, to.Keyspace)
	if errors.Is(err, gocql.ErrNotFound) {
		// The name has been checked to need no quotes.
		if err := session.Query(fmt.Sprintf(
			"CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': %d} AND durable_writes = true",
			to.Keyspace, to.Replication)).Idempotent(true).ExecContext(ctx); err != nil {
			return err
		}
		if found, err = replication(ctx, session, to.Keyspace); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if found != to.Replication {
		return fmt.Errorf("%w: %s has %d replicas of a row and the address says %d; write ?replication=%d, or name another keyspace",
			ErrKeyspace, to.Keyspace, found, to.Replication, found)
	}
	for _, table := range s.cfg.Tables {
		if err := session.Query(fmt.Sprintf(table, to.Keyspace)).Idempotent(true).ExecContext(ctx); err != nil {
			return err
		}
	}
	return session.AwaitSchemaAgreement(ctx)
}

// replication asks how many replicas a keyspace has in all its data centres, and
// refuses one whose writes skip the commit log.
func replication(ctx context.Context, session *gocql.Session, keyspace string) (int, error) {
	var options map[string]string
	var durable bool
	err := session.Query("SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?", keyspace).
		Consistency(gocql.One).ScanContext(ctx, &options, &durable)
	if err != nil {
		return 0, err
	}
	if !durable {
		return 0, fmt.Errorf("%w: %s has durable_writes = false, so its rows are in no commit log; name another keyspace", ErrKeyspace, keyspace)
	}
	total := 0
	for key, value := range options {
		if key == "class" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return 0, fmt.Errorf("%w: %s has %s = %q where a number of replicas is expected", ErrKeyspace, keyspace, key, value)
		}
		total += n
	}
	return total, nil
}

// ask finds out what the nodes do before they acknowledge a write. Each is asked:
// the setting is in its own file. One that is down now is none that could say.
func (s *Session) ask(ctx context.Context) (Durability, error) {
	synced, how := true, make([]string, 0, 3)
	for _, host := range s.session.GetHosts() {
		if !host.IsUp() {
			continue
		}
		var sync string
		// A virtual table holds the settings of the node that is asked.
		err := s.session.Query("SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'").
			SetHostID(host.HostID()).Consistency(gocql.One).Idempotent(true).ScanContext(ctx, &sync)
		if err != nil {
			return Durability{}, fmt.Errorf("node %s: %w", net.JoinHostPort(host.ConnectAddress().String(), strconv.Itoa(host.Port())), err)
		}
		// Both sync before they acknowledge: batch at once, group at the end of a
		// window that writes share.
		synced = synced && (sync == "batch" || sync == "group")
		how = append(how, sync)
	}
	return Durability{
		Synced: synced && len(how) > 0,
		How:    fmt.Sprintf("Cassandra: %d replicas, QUORUM, commitlog_sync of the nodes: %s", s.cfg.Cluster.Replication, strings.Join(how, ", ")),
	}, nil
}
