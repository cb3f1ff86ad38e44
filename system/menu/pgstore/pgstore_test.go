package pgstore

import (
	"context"
	"os"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func TestMain(m *testing.M) {
	if menutest.IsWriter() {
		os.Exit(menutest.Writer(func(path string) (menu.Database, error) { return Open(context.Background(), config(path)) }))
	}
	if menutest.IsFiller() {
		os.Exit(menutest.FillUntilKilled(placeAt, fillers))
	}
	os.Exit(servertest.Main(m.Run))
}

var fillers = menutest.Fillers{Menus: 4 * chunkMenus, Resumes: true, Place: func(t *testing.T) menutest.Filled {
	t.Helper()
	return placeAt(servertest.Database(t))
}}

func placeAt(address string) menutest.Filled {
	return menutest.Of(func(ctx context.Context) (*Store, error) { return Open(ctx, config(address)) })
}

// config is for a server that many tests share, on a machine that may be busy.
func config(address string) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Connections = address, 4
	cfg.AcquireTimeout, cfg.StatementTimeout, cfg.QueryTimeout = time.Minute, time.Minute, 2*time.Minute
	return cfg
}

var databases = menutest.Databases{Place: func(t *testing.T) menutest.Open {
	t.Helper()
	address := servertest.Database(t)
	return func() (menu.Database, error) { return Open(t.Context(), config(address)) }
}}

func TestDatabase(t *testing.T) {
	t.Parallel()
	menutest.Database(t, databases)
}

func TestDesk(t *testing.T) {
	t.Parallel()
	menutest.Desk(t, databases)
}

func TestFiller(t *testing.T) {
	t.Parallel()
	menutest.Filler(t, fillers)
}

func TestKilledFilling(t *testing.T) {
	t.Parallel()
	menutest.KillFilling(t, servertest.Database(t), placeAt, fillers)
}

func TestKilledProcess(t *testing.T) {
	t.Parallel()
	menutest.Kill(t, servertest.Database(t), func(path string) (menu.Database, error) { return Open(t.Context(), config(path)) })
}
