package cli

import (
	"testing"
)

func TestPatternsServeRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`--refresh-ahead "yes": write on or off`, []string{"--refresh-ahead", "yes"}},
		{`--pool-adaptive "1": write on or off`, []string{"--pool-adaptive", "1"}},
		{`do once "on": write off, local or redis`, []string{"--do-once", "on"}},
		{`pool "on": write off, reject or wait`, []string{"--pool", "on"}},
		{"0 workers: write a number from 1", []string{"--pool", "wait", "--pool-workers", "0"}},
		{"less than half of the max age", []string{"--movies-max-age", "5s"}},
		{`listen address is "8080"`, []string{"--listen", "8080"}},
		{"see 'loadstone patterns serve --help'", []string{"all"}},
	} {
		s.want(exitUsage, c.want, append([]string{"patterns", "serve"}, c.args...)...)
	}
	s.want(exitUsage, `patterns has no command "serv"`, "patterns", "serv")
}
