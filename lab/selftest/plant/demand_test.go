package plant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asProcess); text != "" {
		os.Exit(bePlant(text))
	}
	os.Exit(m.Run())
}

// asProcess names the variable that makes this test's program a plant: what a
// plant costs is that of its whole process.
const asProcess = "TEST_PLANT"

// bePlant is a plant until standard input ends.
func bePlant(text string) int {
	ctx, stop := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }()
	c, err := Parse(text)
	if err == nil {
		var s *Service
		if s, err = Listen(ctx, c); err == nil {
			fmt.Println(s.Addr())
			err = s.Run(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// cost is the CPU time of a plant's process that answered n requests.
func cost(t *testing.T, n int, config string) time.Duration {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asProcess+`={"listen":"127.0.0.1:0","admin":"127.0.0.1:0",`+config+`}`)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, http: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
	for range n {
		if status, _ := c.do(http.MethodGet, "http://"+addr+"/", ""); status != http.StatusOK {
			t.Fatalf("got status %d, want 200", status)
		}
	}
	c.http.CloseIdleConnections()
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// What a process costs more for the planted CPU time is that time: the demand
// that a measurement of this plant has to find.
func TestDemandOfAPlantIsThePlantedOne(t *testing.T) {
	t.Parallel()
	const n = 200
	each := func(d time.Duration) float64 { return d.Seconds() * 1000 / n }
	const never = time.Duration(math.MaxInt64)
	idle, nothing, work := never, never, never
	var planted, beside float64
	for range 5 { // a busy machine makes each dearer at times
		idle = min(idle, cost(t, 0, `"cpu_ms":0`))
		nothing = min(nothing, cost(t, n, `"cpu_ms":0`))
		work = min(work, cost(t, n, `"cpu_ms":2`))
		if planted, beside = each(work-nothing), each(nothing-idle); planted >= 1.8 && planted <= 2.6 && beside <= 0.6 {
			break
		}
	}
	if work < n*2*time.Millisecond {
		t.Errorf("%d requests took %v of CPU, want 2 ms for each at least", n, work)
	}
	within(t, "ms of CPU for each request", planted, 1.8, 2.6)
	within(t, "ms of CPU for each request beside it", beside, 0, 0.6)
}
