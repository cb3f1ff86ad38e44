package cql

import (
	"errors"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, None},
		{gocql.ErrNotFound, NotFound},
		{ErrBusy, Busy},
		{ErrClosed, Closed},
		{gocql.ErrSessionClosed, Closed},
		{ErrKeyspace, Failed},
		{&gocql.RequestErrUnavailable{}, Unavailable},
		{gocql.ErrNoConnections, Unavailable},
		{errors.New("read: connection reset by peer"), Unavailable},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
}
