package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// The test binary is also this program's file in the Compose files of the
// tests, with the commands below.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if command, ok := commands[os.Args[1]]; ok {
			// Not os.Exit, in which the race detector waits for a second. What it
			// finds it has said by then.
			syscall.Exit(command(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

var commands = map[string]func(args []string) int{
	"internal-exec": func(args []string) int {
		return fail(cgroup.JoinAndExec(args, os.Environ()))
	},
	"internal-guardian": func([]string) int {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return fail(guardian.Run(context.Background(), os.Stdin, os.Stdout))
	},
	"serve":          serve,  // ADDRESS [NOTEFILE]
	"exit":           exit,   // STATUS LINE...
	"sleep":          sleep,  // until a signal
	"deaf":           deaf,   // to SIGTERM
	"spin":           spin,   // uses all CPU that it gets
	"fill":           fill,   // memory
	"family":         family, // starts "sleep" in a session of its own
	"serving-family": servingFamily,
	"logs":           logs,
	"calls-logs":     callsLogs,
	"asks":           asks,  // URL
	"check":          check, // FILE: healthy if it exists
	"lab":            lab,   // CONFIG in JSON
}

func fail(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// note appends a line to a file that several processes share.
func note(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, _ = f.WriteString(line + "\n")
		_ = f.Close()
	}
}

// serve answers /env with its environment and ends itself on /crash. It notes
// its start and its end.
func serve(args []string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT) // first: it may be stopped as soon as it listens
	name := os.Getenv("NAME")
	mux := http.NewServeMux()
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(os.Environ())
	})
	mux.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) {
		fmt.Println("about to crash")
		os.Exit(7)
	})
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return fail(err)
	}
	if len(args) > 1 {
		note(args[1], "start "+name)
	}
	go func() { _ = http.Serve(listener, mux) }()
	s := <-stop
	if len(args) > 1 {
		note(args[1], "stop "+name+" "+s.String())
	}
	return 0
}

func exit(args []string) int {
	status, _ := strconv.Atoi(args[0])
	for _, line := range args[1:] {
		if file, ok := strings.CutPrefix(line, "note:"); ok {
			note(file, "job "+os.Getenv("NAME"))
			continue
		}
		fmt.Println(line)
	}
	return status
}

func sleep([]string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("sleeping", os.Getpid())
	<-stop
	return 0
}

func deaf([]string) int {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("deaf")
	time.Sleep(time.Hour)
	return 0
}

func spin([]string) int {
	for {
		_ = time.Now()
	}
}

func fill([]string) int {
	held := make([][]byte, 0, 512)
	for range 512 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	return len(held) & 1
}

func family([]string) int {
	cmd := exec.CommandContext(context.Background(), os.Args[0], "sleep")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	return sleep(nil)
}

// servingFamily is serve with a child like family's.
func servingFamily(args []string) int {
	cmd := exec.CommandContext(context.Background(), os.Args[0], "sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	return serve(args)
}

func check(args []string) int {
	if _, err := os.Stat(args[0]); err != nil {
		fmt.Println("not yet:", err)
		return 1
	}
	return 0
}

// labConfig is what a test tells a lab that it starts as a process.
type labConfig struct {
	ComposeFile string `json:"compose_file"`
	LogDir      string `json:"log_dir"`
	VolumeDir   string `json:"volume_dir"`
	SysRoot     string `json:"sys_root"`
}

// lab is a lab as a process: it brings a system up, says so, and waits for a
// signal.
func lab(args []string) int {
	var lc labConfig
	if err := json.Unmarshal([]byte(args[0]), &lc); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	system, err := topology.Load(ctx, topology.Config{ComposeFiles: []string{lc.ComposeFile}})
	if err != nil {
		return fail(err)
	}
	c := testConfig(system)
	c.LogDir, c.VolumeDir, c.SysRoot = lc.LogDir, lc.VolumeDir, lc.SysRoot
	r, err := bringUp(ctx, c)
	if err != nil {
		return fail(err)
	}
	if name := os.Getenv("PAUSE"); name != "" {
		if err := errors.Join(r.Pause(ctx, name), r.Kill(ctx, os.Getenv("KILL"))); err != nil {
			return fail(err)
		}
	}
	fmt.Println("up")
	<-ctx.Done()
	return fail(r.Down(context.Background()))
}

func testConfig(system *topology.System) setup {
	c := setup{Driver: Driver{Settings: driver.DefaultSettings()}}
	c.System, c.Self = system, os.Args[0]
	c.Shim = []string{os.Args[0], "internal-exec"}
	c.Guardian = []string{os.Args[0], "internal-guardian"}
	c.Env = map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/nonexistent", "SECRET": "of the lab"}
	return c
}

// bringUp is Up with the types of this package.
func bringUp(ctx context.Context, c setup) (*Running, error) {
	r, err := c.Up(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	return r.(*Running), nil
}

func (r *Running) instance(name string) *instance {
	for _, in := range r.instances {
		if in.Name == name {
			return in
		}
	}
	return nil
}

// PID is the process of an instance; 0 while there is none because it was ended on
// purpose, and if there is no such instance.
func (r *Running) PID(name string) int {
	in := r.instance(name)
	if in == nil || in.Life() == nil || in.Life().Asked() {
		return 0
	}
	return in.Life().Process.PID
}

func (r *Running) Group(name string) *cgroup.Group {
	if in := r.instance(name); in != nil {
		return in.group
	}
	return nil
}

func (r *Running) CgroupVersion() int {
	if r.tree == nil {
		return 0
	}
	return r.tree.Version()
}
