package pgstore

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"loadstone/block/postgres"
	"loadstone/block/redact"
)

// The roles that read, beside the owner, who fills and corrects.
const (
	// Reader looks students up and may read the tables; nothing else.
	Reader = "results_reader"
	// Monitor sees the server's statistics and no table.
	Monitor = "results_monitor"
)

// Roles are the passwords of a database's roles.
type Roles struct {
	Owner, Reader, Monitor string
	// Before is the owner's until now, where it is not Owner yet.
	Before string
}

// ErrPassword is wrapped when the database takes neither of the owner's passwords.
var ErrPassword = errors.New("it accepts neither the owner's password nor the one of before")

// Set makes the reading roles in the database at the address, whose user is its owner
// and may make roles, and gives all three their passwords. Tables that are made later
// can be read as well. It may be done again; renewed reports that the owner still had
// the password of before.
func (r Roles) Set(ctx context.Context, address string) (renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := connectWith(ctx, address, r.Owner)
	if wrongPassword(err) {
		renewed = true
		if conn, err = connectWith(ctx, address, r.Before); wrongPassword(err) {
			err = ErrPassword
		}
	}
	if err == nil {
		err = errors.Join(postgres.BeginLocked(ctx, conn, migrateLock, func(tx pgx.Tx) error { return r.set(ctx, tx) }), conn.Close(ctx))
	}
	if err != nil {
		return renewed, fmt.Errorf("set the roles of %s: %w", redact.Address(address), err)
	}
	return renewed, nil
}

func connectWith(ctx context.Context, address, password string) (*pgx.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, postgres.CheckURL(address) // which does not show it
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return connect(ctx, u.String())
}

func wrongPassword(err error) bool {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refusal.Code == "28P01"
}

// set does it in a transaction. A statement has no parameters here, so names and
// verifiers, which need no quotes, are written into it.
func (r Roles) set(ctx context.Context, tx pgx.Tx) error {
	for name, password := range map[string]string{Reader: r.Reader, Monitor: r.Monitor} {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", name).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, "CREATE ROLE "+name); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '%s'", name, verifier(password))); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("ALTER ROLE CURRENT_USER PASSWORD '%s'", verifier(r.Owner))); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, grants)
	return err
}

// grants are for what is there and, by default privileges, for what the owner makes
// later: the schema is empty on the first start, and dropped to begin anew.
const grants = `
GRANT pg_monitor TO ` + Monitor + `;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO ` + Reader + `;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO ` + Reader + `;
DO $$ BEGIN
	EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
	EXECUTE format('GRANT CONNECT ON DATABASE %I TO ` + Reader + `, ` + Monitor + `', current_database());
	IF to_regnamespace('results') IS NOT NULL THEN
		GRANT USAGE ON SCHEMA results TO ` + Reader + `;
		GRANT SELECT ON ALL TABLES IN SCHEMA results TO ` + Reader + `;
	END IF;
END $$`

// verifier is what PostgreSQL stores of a password (RFC 5803), so that the password
// itself is in no statement and in no log of statements.
func verifier(password string) string {
	const iterations = 4096 // PostgreSQL's own
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		panic(err) // only for a key that is too long
	}
	mac := func(text string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(stored[:]), text(mac("Server Key")))
}
