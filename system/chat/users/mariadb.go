package users

import "context"

// makeTables makes those of the database that are not there yet. Its SQL is in the mode ANSI_QUOTES.
func (s *Store) makeTables(ctx context.Context) error {
	for _, statement := range sharedTables {
		if _, err := s.writes.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	// To make a trigger, whether it is there or not, is to wait for all who use the table, as a backup does, while others wait, too.
	var there bool
	if err := s.writes.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.triggers
		WHERE trigger_schema = DATABASE() AND trigger_name = 'session_ended_early')`).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := s.writes.ExecContext(ctx, sharedTrigger); err != nil {
			return err
		}
	}
	// The one of earlier versions noted those that had expired, too.
	_, err := s.writes.ExecContext(ctx, `DROP TRIGGER IF EXISTS session_ended`)
	return err
}

// sharedTables are tables, in MariaDB, and what has to be there besides. users_turn has one row, which whoever ends
// sessions has for itself until it is done.
var sharedTables = []string{
	`CREATE TABLE IF NOT EXISTS users (
		id VARCHAR(64) PRIMARY KEY, email VARCHAR(254) UNIQUE, hash VARCHAR(255) NOT NULL DEFAULT '', vouched BOOLEAN NOT NULL DEFAULT 0,
		issuer VARCHAR(255), subject VARCHAR(255), name VARCHAR(255) NOT NULL, picture VARCHAR(500) NOT NULL DEFAULT '', role VARCHAR(16) NOT NULL,
		disabled BOOLEAN NOT NULL DEFAULT 0, created BIGINT NOT NULL, followers BIGINT NOT NULL DEFAULT 0, asked BIGINT NOT NULL DEFAULT 1,
		UNIQUE (issuer, subject)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS sessions (
		id VARCHAR(64) PRIMARY KEY, mark VARCHAR(64) NOT NULL, user VARCHAR(64) NOT NULL, secret VARBINARY(64) NOT NULL, began BIGINT NOT NULL,
		until BIGINT NOT NULL, "before" VARBINARY(64), salt VARBINARY(64), rotated BIGINT NOT NULL DEFAULT 0,
		KEY (user, until), KEY (until)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS follows (user VARCHAR(64) NOT NULL, host VARCHAR(64) NOT NULL, since BIGINT NOT NULL, PRIMARY KEY (user, host)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS subscriptions (user VARCHAR(64) NOT NULL, host VARCHAR(64) NOT NULL, until BIGINT NOT NULL, PRIMARY KEY (user, host)) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS ended (number BIGINT PRIMARY KEY AUTO_INCREMENT, session VARCHAR(64) NOT NULL) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
	`CREATE TABLE IF NOT EXISTS users_turn (id INT PRIMARY KEY, number BIGINT NOT NULL)`,
	`INSERT IGNORE INTO users_turn VALUES (1, 0)`,
}

// sharedTrigger notes sessions that end, see endedTrigger.
const sharedTrigger = `CREATE TRIGGER IF NOT EXISTS session_ended_early AFTER DELETE ON sessions FOR EACH ROW BEGIN
	IF OLD.mark <> '' THEN
		INSERT INTO ended (session) VALUES (OLD.mark);
		DELETE FROM ended WHERE number <= CAST(LAST_INSERT_ID() AS SIGNED) - 10000;
	END IF;
END`
