package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCadvisorsFlags(t *testing.T) {
	t.Parallel()
	f := func(given, want []string, warnings ...string) {
		t.Helper()
		in := testInstance(t)
		in.Files["cadvisor"], in.port = "c", 8080
		in.Service.Arguments = given
		var got []string
		in.Warnf = func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
		p, err := startCadvisor(t.Context(), in)
		if err != nil || !slices.Equal(p.Command[2:], want) || p.Command[1] != "--beside" {
			t.Errorf("%q: got %+v, %v, want %q", given, p, err, want)
		}
		if len(got) != len(warnings) || len(got) > 0 && !strings.Contains(got[0], warnings[0]) {
			t.Errorf("%q: got warnings %q, want %q", given, got, warnings)
		}
	}
	f(nil, []string{"--listen_ip=127.77.1.9", "--port=8080"})
	f([]string{"--port=81", "--listen_ip", "0.0.0.0", "-housekeeping_interval", "5s"}, []string{"--listen_ip=127.77.1.9", "--port=81", "-housekeeping_interval", "5s"})
	// They say what is left out of containers, of which there are none.
	f([]string{"cadvisor", "--docker_only", "--store_container_labels=false"}, []string{"--listen_ip=127.77.1.9", "--port=8080"})
	f([]string{"--enable_metrics=cpu,memory"}, []string{"--listen_ip=127.77.1.9", "--port=8080"}, "its flag --enable_metrics is left out")

	in := testInstance(t)
	in.Service.Arguments = []string{"sh"}
	if _, err := startCadvisor(t.Context(), in); err == nil {
		t.Error("another program was started")
	}
}

func TestWhatIsNoPackageIsBuilt(t *testing.T) {
	t.Parallel()
	r := &Recipe{Image: "thing", Programs: []string{"no-such-program"}, Build: "cd deploy/thing && go build"}
	_, err := r.Locate(t.Context(), "thing", "/usr/bin")
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "build it with `cd deploy/thing && go build`") || strings.Contains(err.Error(), "apt-get") {
		t.Errorf("got %v", err)
	}
}
