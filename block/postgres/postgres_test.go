package postgres

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"loadstone/block/redact"
	"loadstone/block/servertest"
)

func TestMain(m *testing.M) {
	code := servertest.Main(m.Run)
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

func config(url string) Config {
	return Config{
		URL: url, Name: "test", Connections: 2, Waiting: 10,
		AcquireTimeout: 5 * time.Second, QueryTimeout: 20 * time.Second, StatementTimeout: 10 * time.Second,
	}
}

func open(t *testing.T, cfg Config) *Pool {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func one[T any](t *testing.T, conn *pgx.Conn, query string) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestConfigNamesEveryProblem(t *testing.T) {
	t.Parallel()
	err := Config{URL: "mysql://root:secret@db/x"}.Validate()
	for _, want := range []string{
		"postgres://USER@HOST", "connections is 0", "waiting is 0", "acquire timeout is 0s", "query timeout is 0s", "statement timeout is 0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want it to name %q and no password", err, want)
		}
	}
	if err := config("postgres://h/x").Validate(); err != nil {
		t.Error(err)
	}
}

// TestAddresses: no error and no name shows the password.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"postgres://u:secret@h:5432/db":                  true,
		"postgresql://u:secret@h/db?sslmode=disable":     true,
		"postgres:///db?host=/tmp&password=secret":       true,
		"postgres://u:secret@h/db?pool_max_conns=x":      false,
		"postgres://u:secret@h:port/db":                  false,
		"postgres://u:se%cret@h/db":                      false,
		"postgres:secret":                                false,
		"host=h password=secret":                         false,
		"mysql://u:secret@h/db":                          false,
		"postgres://u:secret@h/db?sslmode=sometimes":     false,
		"postgres://u@h/db?sslmode=no&password=secret":   false,
		"postgres://u:secret@h/db?sslpassword=secret":    true,
		"postgres://u:secret@h,h2:5433/db?target=secret": true,
	} {
		err := CheckURL(text)
		if (err == nil) != ok {
			t.Errorf("%s: got %v, want ok %t", text, err, ok)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in %v", text, err)
		}
		if shown := redact.Address(text); strings.HasPrefix(text, "postgres") && ok && !strings.Contains(text, "target=") && strings.Contains(shown, "secret") {
			t.Errorf("%s: the password is in %s", text, shown)
		}
	}
}

// An attempt to connect is bounded, whoever wrote the address: by it, if it says so.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{"postgres://h/x": connectTimeout, "postgres://h/x?connect_timeout=60": time.Minute} {
		got, err := parse(url)
		if err != nil || got.ConnConfig.ConnectTimeout != want {
			t.Errorf("%s: got %v and %v, want %v", url, got.ConnConfig.ConnectTimeout, err, want)
		}
	}
}

func TestPoolSize(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int32{"postgres://h/x": 5, "postgres://h/x?pool_max_conns=9": 9} {
		cfg := config(url)
		cfg.Connections = 5
		got, err := cfg.poolConfig()
		if err != nil || got.MaxConns != want {
			t.Errorf("%s: got %d connections and %v, want %d", url, got.MaxConns, err, want)
		}
	}
}

// The bounds of a pool: who finds no room, or waits too long, is told that it is busy.
func TestBusy(t *testing.T) {
	t.Parallel()
	cfg := config(servertest.Database(t))
	cfg.Connections, cfg.Waiting, cfg.AcquireTimeout = 1, 1, 2*time.Second
	p := open(t, cfg)
	nothing := func(context.Context, *pgxpool.Conn) error { return nil }
	for deadline := time.Now().Add(2 * time.Minute); p.With(t.Context(), nothing) != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // it connects, which may take longer than this pool waits
	}
	hold, held := make(chan struct{}), make(chan struct{})
	do := func(context.Context, *pgxpool.Conn) error { close(held); <-hold; return nil }
	ended := make(chan error, 1)
	go func() { ended <- p.With(context.Background(), do) }()
	select {
	case <-held:
	case err := <-ended:
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() { waits <- p.With(context.Background(), nothing) }()
	for p.Waiting() == 0 && len(waits) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := p.With(t.Context(), nothing); KindOf(err) != Busy {
		t.Errorf("the third: got %v, want ErrBusy at once", err)
	}
	if err := <-waits; KindOf(err) != Busy {
		t.Errorf("who waited: got %v, want ErrBusy", err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Errorf("who had the connection: got %v", err)
	}
	p.Close()
	if err := p.With(t.Context(), nothing); KindOf(err) != Closed {
		t.Errorf("after Close: got %v", err)
	}
}

// A query that has begun is not ended with its caller, as that would cost the connection.
func TestQueryOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	cfg := config(servertest.Database(t))
	cfg.AcquireTimeout, cfg.QueryTimeout = time.Minute, time.Minute
	p := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var got int
	err := p.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		cancel()
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the query has no bound")
		}
		return conn.QueryRow(ctx, "SELECT 1").Scan(&got)
	})
	if err != nil || got != 1 {
		t.Errorf("got %d and %v, want the answer", got, err)
	}
	if err := p.With(ctx, func(context.Context, *pgxpool.Conn) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller who has left: got %v, want no connection", err)
	}
}

// Two transactions that read what the other changes: the one that the database ends is
// done again, and both are counted. An error of the caller's own is not tried again.
func TestTxIsDoneAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	cfg := config(servertest.Database(t))
	cfg.Parameters = map[string]string{"default_transaction_isolation": "serializable"}
	p := open(t, cfg)
	conn := dial(t, cfg.URL)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	err := p.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		attempts++
		var n int
		if err := tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
			return err
		}
		if attempts == 1 { // somebody else meanwhile
			if _, err := conn.Exec(ctx, "UPDATE counter SET n = n + 1"); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1)
		return err
	})
	if got := one[int](t, conn, "SELECT n FROM counter"); err != nil || attempts != 2 || got != 2 {
		t.Errorf("got %d after %d attempts and %v, want 2 after 2", got, attempts, err)
	}
	own := errors.New("own")
	attempts = 0
	if err := p.Tx(t.Context(), func(context.Context, pgx.Tx) error { attempts++; return own }); !errors.Is(err, own) || attempts != 1 {
		t.Errorf("got %v after %d attempts, want the caller's error after 1", err, attempts)
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	url := servertest.Database(t)
	conn := dial(t, url)
	run := func(statement string) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	}
	if err := run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	holder := dial(t, url)
	if err := Lock(t.Context(), holder, 1, time.Second); err != nil {
		t.Fatal(err)
	}
	var n int
	_, nobody := Connect(t.Context(), "postgres://nobody@127.0.0.1:1/x")
	_, none := Connect(t.Context(), strings.Replace(url, "/test", "/nothing", 1))
	_, wrong := Connect(t.Context(), "mysql://x")
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, None},
		{run("INSERT INTO t VALUES (1)"), Exists},
		{run("SELECT nonsense"), Failed},
		{conn.QueryRow(t.Context(), "SELECT id FROM t WHERE id = 2").Scan(&n), NotFound},
		{conn.QueryRow(t.Context(), "SELECT 'text'").Scan(&n), Failed},
		{Lock(t.Context(), conn, 1, 10*time.Millisecond), Locked},
		{run("SET statement_timeout = 10; SELECT pg_sleep(5)"), Unavailable},
		{nobody, Unavailable},
		{none, Failed}, // it has answered: there is no such database
		{wrong, Failed},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}
