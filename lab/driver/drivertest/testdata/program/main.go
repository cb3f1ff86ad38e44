// Program is what the services of the driver suite run. It is built without
// cgo, so that it runs in an image that has nothing else.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "unknown command", os.Args)
		os.Exit(2)
	}
	os.Exit(commands[os.Args[1]](os.Args[2:]))
}

var commands = map[string]func(args []string) int{
	"serve": serve, // ADDRESS NOTEFILE
	"exit":  exit,  // STATUS LINE...; note:FILE notes instead
	"count": count, // FILE NOTEFILE: how often it was called with FILE
	"check": check, // FILE: healthy if it exists
	"sleep": sleep, // until SIGTERM
	"deaf":  deaf,  // NOTEFILE: does not hear SIGTERM
	"burn":  burn,  // CPU NOTEFILE READY DONE: uses that much CPU time and notes how long it took, before and after it is ready
	"await": await, // FILE: ends when it exists
	"spin":  spin,  // uses all CPU that it gets
	"fill":  fill,  // FILE: memory, when it exists
}

// note appends a line to a file that several instances share.
func note(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = f.WriteString(line + "\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = f.Close()
}

// serve answers /reach by connecting to $PEER, and ends itself on /crash. It
// notes its start and its end.
func serve(args []string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT) // first: it may be stopped as soon as it listens
	name := os.Getenv("NAME")
	mux := http.NewServeMux()
	mux.HandleFunc("/reach", func(w http.ResponseWriter, _ *http.Request) {
		conn, err := net.DialTimeout("tcp", os.Getenv("PEER"), 5*time.Second)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = conn.Close()
		fmt.Fprint(w, os.Getenv("DATA"))
	})
	mux.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) {
		fmt.Println("about to crash")
		os.Exit(7)
	})
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	note(args[1], "start "+name)
	go func() { _ = http.Serve(listener, mux) }()
	s := <-stop
	note(args[1], "stop "+name+" "+s.String())
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

func count(args []string) int {
	note(args[0], "run")
	text, err := os.ReadFile(args[0])
	if err != nil {
		return 1
	}
	note(args[1], fmt.Sprint("run ", strings.Count(string(text), "\n")))
	return 0
}

func check(args []string) int {
	if _, err := os.Stat(args[0]); err != nil {
		fmt.Println("not yet:", err)
		return 1
	}
	return 0
}

func sleep([]string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("sleeping")
	<-stop
	return 0
}

func deaf(args []string) int {
	signal.Ignore(syscall.SIGTERM)
	note(args[0], "deaf")
	for {
		time.Sleep(time.Hour)
	}
}

// burn goes on as sleep does if it makes files, and ends if it is to make none.
func burn(args []string) int {
	cpu, err := time.ParseDuration(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	use := func() {
		began, until := time.Now(), used()+cpu
		for used() < until {
		}
		note(args[1], os.Getenv("NAME")+" "+time.Since(began).String())
	}
	use()
	if len(args) < 3 {
		return 0
	}
	note(args[2], "ready")
	use()
	note(args[3], "done")
	return sleep(nil)
}

// used is the CPU time that this process has used.
func used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func await(args []string) int {
	for {
		if _, err := os.Stat(args[0]); err == nil {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func spin([]string) int {
	for {
		_ = time.Now()
	}
}

func fill(args []string) int {
	await(args)
	var held [][]byte
	for range 512 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	return len(held) & 1
}
