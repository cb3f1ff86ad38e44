package feedtest

import (
	"testing"

	"go.uber.org/goleak"

	"loadstone/system/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	t.Parallel()
	Stores(t, Places{Make: func(*testing.T) Open {
		m := &Memory{}
		return func() (feed.Store, error) { return m, nil }
	}})
}
