package process

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/drivertest"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
)

func TestUpFailsWithTheReason(t *testing.T) {
	failure := func(t *testing.T, c setup) string {
		t.Helper()
		r, err := bringUp(t.Context(), c)
		if err == nil {
			down(t, r)
			t.Fatal("got no error")
		}
		wantNothingLeft(t, os.Getpid(), "")
		return err.Error()
	}
	f := func(name, compose string, change func(*setup), want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			c := config(t, compose)
			if change != nil {
				change(&c)
			}
			got := failure(t, c)
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("got %q\nwant %q in it", got, w)
				}
			}
		})
	}
	// slow is f for what takes a child that listens, which on a busy machine comes to that late. Until then there is
	// another reason, and it is tried again with more time: $WITHIN, or $TENTHS of a second.
	slow := func(name, compose string, want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			for within := time.Second; ; within *= 5 {
				fill := strings.NewReplacer("$WITHIN", within.String(), "$TENTHS", strconv.Itoa(int(within/(time.Second/10)))).Replace
				c := config(t, fill(compose))
				c.ReadyWithin = within
				got := failure(t, c)
				lacking := slices.IndexFunc(want, func(w string) bool { return !strings.Contains(got, fill(w)) })
				if lacking < 0 {
					return
				}
				if within > 2*time.Minute {
					t.Fatalf("got %q\nwant %q in it", got, fill(want[lacking]))
				}
			}
		})
	}
	f("seeder", `
services:
  seed: {image: loadstone, command: [exit, "3", connecting, "cannot open the table"]}
  api: {image: loadstone, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
`, nil, "seed-1 exited with status 3", "cannot open the table", "seed-1.log")

	f("never healthy", `
services:
  other: {image: loadstone, command: [sleep]}
  api:
    image: loadstone
    command: [sleep]
    healthcheck: {test: [CMD, loadstone, check, $DIR/never], interval: 100ms, retries: 3}
`, nil, "api-1 is not healthy after 300ms (a longer start_period in its healthcheck gives it more)", "not yet: stat", "exit status 1", "api-1.log")

	f("health check that hangs", `
services:
  api:
    image: loadstone
    command: [sleep]
    healthcheck: {test: [CMD, loadstone, sleep], interval: 100ms, timeout: 200ms, retries: 1}
`, nil, "api-1 is not healthy", "took more than 200ms")

	f("health check that cannot run", `
services:
  api: {image: loadstone, command: [sleep], healthcheck: {test: [CMD, no-such-program], interval: 50ms, retries: 1}}
`, nil, "cannot run: there is no program no-such-program")

	f("ends while it starts", `
services:
  db: {image: loadstone, command: [exit, "0", "port is taken"], healthcheck: {test: [CMD, loadstone, check, $DIR/never]}}
  api: {image: loadstone, command: [sleep], depends_on: {db: {condition: service_healthy}}}
`, nil, "db-1 exited with status 0 while it should run", "service_completed_successfully", "port is taken")

	slow("listens elsewhere", `
services: {api: {image: loadstone, command: [serve, "127.0.0.1:0"], expose: ["8080"]}}
`, "api-1 accepts no connection on 127.77.", ":8080 after $WITHIN: it listens on 127.0.0.1:", "let it listen on ${BIND_HOST:-0.0.0.0} and port 8080")

	slow("listens on another port", `
services: {api: {image: loadstone, command: [serve, "${BIND_HOST:-0.0.0.0}:8081"], expose: ["8080"]}}
`, ":8080 after $WITHIN: it listens on 127.77.", `:8081; write ports: ["8081"], or let it listen on port 8080`)

	f("listens nowhere", `
services: {api: {image: loadstone, command: [sleep], expose: ["8080"]}}
`, func(c *setup) { c.ReadyWithin = 200 * time.Millisecond }, ":8080 after 200ms: it listens nowhere; let it listen on ${BIND_HOST:-0.0.0.0}")

	// Whoever listens on every address answers at the instance's, too.
	foreign, taken := drivertest.Listen(t, "0.0.0.0")
	f("another process has its port", `
services: {api: {image: loadstone, command: [sleep], expose: ["`+taken+`"]}}
`, nil, "start api-1: its port "+taken+" is taken by process.test (process "+strconv.Itoa(os.Getpid())+"), which listens on 0.0.0.0:"+taken+"; end that, or have api listen on another port")
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}

	f("replicas fight for a port", `
services: {api: {image: loadstone, command: [serve, "0.0.0.0:`+taken+`"], expose: ["`+taken+`"], deploy: {replicas: 2}}}
`, nil, "has taken its port: it listens on ", ":"+taken+", which is every address; let api listen on ${BIND_HOST:-0.0.0.0}:"+taken)

	slow("another service has its port", `
services:
  greedy: {image: loadstone, command: [serve, "0.0.0.0:`+taken+`"]}
  api: {image: loadstone, command: [sleep], expose: ["`+taken+`"]}
`, "greedy-1 has taken its port")

	slow("healthy by another's answer", `
services:
  greedy: {image: loadstone, command: [serve, "0.0.0.0:`+taken+`", $DIR/listens]}
  api: {image: loadstone, command: [sleep], expose: ["`+taken+`"], healthcheck: {test: [CMD, loadstone, check, $DIR/listens], interval: 100ms, retries: $TENTHS}}
`, "greedy-1 has taken its port")

	f("no such program", `
services: {api: {x-process: [./server]}}
`, nil, "compose.yaml:2:18: service api: there is no program /", "/server; build it, or correct its path: without Docker nothing is built, and a path that begins with ./")

	f("a path within the image", `
services: {api: {x-process: [/nonexistent/bin/fares, --port, "8080"]}}
`, nil, "compose.yaml:2:18: service api: there is no program /nonexistent/bin/fares on this machine", "build it here, and write where it is, such as ./fares")

	f("not on the path", `
services: {api: {x-process: [no-such-program], environment: {PATH: /bin}}}
`, nil, "there is no program no-such-program on the PATH; install it")

	f("not a program", `
services: {api: {x-process: [./compose.yaml]}}
`, nil, "compose.yaml is not a program that can be run")

	f("guardian that does not work", `
services: {api: {image: loadstone, command: [sleep]}}
`, func(c *setup) { c.Guardian = []string{"/bin/sh", "-c", "echo no such command >&2; exit 2"} }, "start the guardian", "no such command")
}

func TestACrashIsReportedOnceAndNotRestarted(t *testing.T) {
	c := config(t, `
services:
  api: {image: loadstone, command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/notes], expose: ["8080"], restart: always, deploy: {replicas: 2}}
`)
	r := up(t, c)
	second := r.Instances()[1]
	if res, err := http.Get("http://" + second.Host + ":8080/crash"); err == nil {
		_ = res.Body.Close()
	}
	var exit *driver.ExitError
	if err := <-r.Failed(); !errors.As(err, &exit) {
		t.Fatalf("got %v, want an *driver.ExitError", err)
	}
	if exit.Instance != "api-2" || exit.Status != "exited with status 7" || exit.Job || !slices.Contains(exit.Log, "about to crash") {
		t.Errorf("got %+v", exit)
	}
	if got := marked(os.Getpid(), r.name); !slices.Equal(got, []int{r.Instances()[0].PID}) {
		t.Errorf("got processes %v, want only api-1", got)
	}
	down(t, r)
	if err, more := <-r.Failed(); more {
		t.Errorf("got a second report: %v", err)
	}
	if got := lines(t, filepath.Join(c.System.Dir, "notes")); len(got) != 3 { // two starts, one stop
		t.Errorf("got %q, want two starts and one stop", got)
	}
}

func TestLimitsAreEnforced(t *testing.T) {
	cgrouptest.Tree(t)
	r := up(t, config(t, `
services:
  api: {image: loadstone, command: [spin], deploy: {resources: {limits: {cpus: "0.25", memory: 64M}}}}
  free: {image: loadstone, command: [sleep]}
`))
	api := r.Instances()[0]
	if api.LimitCPUs != 0.25 || !api.Enforced || r.CgroupVersion() == 0 || len(r.Warnings()) > 0 {
		t.Errorf("got %+v, version %d, warnings %q", api, r.CgroupVersion(), r.Warnings())
	}
	if free := r.Group("free-1"); free == nil || r.Group("nobody-1") != nil {
		t.Errorf("got groups %v for free-1 and %v for nobody-1", free, r.Group("nobody-1"))
	}
	// More than its share never; less only while others have the machine.
	eventuallyIn(t, 10*time.Minute, "a busy loop uses a quarter of a core within 20 %", func() bool {
		used := usedInASecond(t, r.Group("api-1"))
		if used > 0.3 {
			t.Fatalf("got %.3f cores, want 0.25 within 20 %%", used)
		}
		return used >= 0.2
	})
}

// usedInASecond is the CPU use of a group over a second, in cores.
func usedInASecond(t *testing.T, g *cgroup.Group) float64 {
	t.Helper()
	var before, after cgroup.Stat
	begin := time.Now() // before the first reading, so that the use is never above the truth
	if err := g.Read(&before); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second)
	if err := g.Read(&after); err != nil {
		t.Fatal(err)
	}
	return (after.CPU - before.CPU).Seconds() / time.Since(begin).Seconds()
}

func TestTheMemoryLimitIsReported(t *testing.T) {
	cgrouptest.Tree(t)
	c := config(t, `
services:
  api: {image: loadstone, command: [fill], deploy: {resources: {limits: {memory: 32M}}}}
  other: {image: loadstone, command: [sleep], depends_on: [api]}
`)
	r, err := bringUp(t.Context(), c)
	if err == nil { // it may have been up for a moment
		t.Cleanup(func() { down(t, r) })
		err = <-r.Failed()
	}
	var exit *driver.ExitError
	if !errors.As(err, &exit) || exit.Memory != 32<<20 {
		t.Fatalf("got %v, want an *driver.ExitError that names the memory limit", err)
	}
	if want := "api-1 was killed by SIGKILL, because it had used up its memory limit of 32 MiB"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestWithoutGroupsItRunsAndSaysSo(t *testing.T) {
	r := up(t, withoutGroups(t, config(t, `
services: {api: {image: loadstone, command: [family], deploy: {replicas: 2, resources: {limits: {cpus: "0.5"}}}}}
`)))
	in := r.Instances()[0]
	if in.LimitCPUs != 0.5 || in.Enforced || r.Group("api-1") != nil || r.CgroupVersion() != 0 {
		t.Errorf("got %+v with group %v", in, r.Group("api-1"))
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], "limits are not enforced") || !strings.Contains(w[0], "to have them, run as root") {
		t.Errorf("got warnings %q", w)
	}
	// Each family is two processes; Down must find those in their own session.
	eventually(t, "both families are complete", func() bool { return len(marked(os.Getpid(), r.name)) == 4 })
}

func TestADeafInstanceIsKilled(t *testing.T) {
	c := config(t, `
services: {api: {image: loadstone, command: [deaf], stop_grace_period: 100ms}}
`)
	r := up(t, c)
	eventually(t, "it does not hear", func() bool { return len(lines(t, filepath.Join(c.LogDir, "api-1.log"))) > 0 })
	down(t, r)
	if w := r.Warnings(); !slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "did not end within 100ms of SIGTERM and was killed") }) {
		t.Errorf("got warnings %q", w)
	}
}

func TestDownDoesNotWaitWhenItsContextEnds(t *testing.T) {
	c := config(t, `
services: {api: {image: loadstone, command: [deaf], stop_grace_period: 10m}}
`)
	r := up(t, c)
	eventually(t, "it does not hear", func() bool { return len(lines(t, filepath.Join(c.LogDir, "api-1.log"))) > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Down(ctx); err != nil { // would take 10 minutes
		t.Error(err)
	}
	wantNothingLeft(t, os.Getpid(), r.name)
}

func TestUsersAndDirectories(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	c := config(t, `
services:
  who: {x-process: [sh, -c, "id -u; id -g; pwd; touch $${DATA_VOLUME}/mine"], user: "65534:65533", working_dir: /usr, volumes: [data:/data]}
  odd: {x-process: [sh, -c, pwd], user: nobody-at-all, working_dir: /no/such/place}
  end: {image: loadstone, command: [sleep], depends_on: {who: {condition: service_completed_successfully}, odd: {condition: service_completed_successfully}}}
volumes: {data: {}}
`)
	for dir := c.System.Dir; strings.Contains(dir, t.Name()); dir = filepath.Dir(dir) { // closed to others at first
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := up(t, c)
	if got, want := lines(t, filepath.Join(c.LogDir, "who-1.log")), []string{"65534", "65533", "/usr"}; !slices.Equal(got, want) {
		t.Errorf("who: got %q, want %q", got, want)
	}
	if got, want := lines(t, filepath.Join(c.LogDir, "odd-1.log")), []string{c.System.Dir}; !slices.Equal(got, want) {
		t.Errorf("odd: got %q, want %q", got, want)
	}
	if w := r.Warnings(); len(w) != 2 || !strings.Contains(strings.Join(w, "|"), "user nobody-at-all is ignored") || !strings.Contains(strings.Join(w, "|"), "working_dir /no/such/place does not exist") {
		t.Errorf("got warnings %q", w)
	}
}

func TestFindAccount(t *testing.T) {
	t.Parallel()
	f := func(spec string, uid, gid uint32) {
		t.Helper()
		a, err := findAccount(spec)
		if err != nil || a.credential.Uid != uid || a.credential.Gid != gid {
			t.Errorf("%q: got %+v, %v, want %d:%d", spec, a, err, uid, gid)
		}
	}
	f("root", 0, 0)
	f("0:7", 0, 7)
	f("54321", 54321, 0)
	f("root:"+strconv.Itoa(1<<31), 0, 1<<31)
	for _, bad := range []string{"no-such-user", "-1", "0:no-such-group", "0:", ":0"} {
		if a, err := findAccount(bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, a)
		}
	}
}
