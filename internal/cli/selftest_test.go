package cli

import (
	"fmt"
	"strings"
	"testing"

	"loadstone/lab/selftest"
)

func TestSelftestFlagsChooseSystems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags selftestFlags
		want  int
		err   string
	}{
		{selftestFlags{}, len(selftest.Systems()), ""},
		{selftestFlags{quick: true}, 4, ""},
		{selftestFlags{only: []string{"pool", "lock"}}, 2, ""},
		{selftestFlags{only: []string{"pols"}}, 0, `--only: no system "pols" exists; write one of: front`},
		{selftestFlags{only: []string{"pool"}, quick: true}, 0, "write one of them"},
	} {
		got, err := c.flags.systems()
		if len(got) != c.want || (err != nil) != (c.err != "") || !strings.Contains(fmt.Sprint(err), c.err) {
			t.Errorf("%+v: got %d systems and %v, want %d and %q", c.flags, len(got), err, c.want, c.err)
		}
		if err != nil && !isUsage(err) {
			t.Errorf("%+v: %v is no usage error", c.flags, err)
		}
	}
}

func TestPlantRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	got := loadstone(t, t.TempDir(), "internal", "plant", `{"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "pol": {"size": 1}}`)
	if got.code != exitUsage || !strings.Contains(got.stderr, `unknown field "pol"`) {
		t.Errorf("got exit status %d and %q, want %d and what to write", got.code, got.stderr, exitUsage)
	}
}
