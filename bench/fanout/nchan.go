package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nchanModule is where Debian has it.
const nchanModule = "/usr/lib/nginx/modules/ngx_nchan_module.so"

// nchanProgram is the NGINX that has nchan.
func nchanProgram() (string, error) {
	if _, err := os.Stat(nchanModule); err != nil {
		return "", errors.New("nchan: run scripts/setup fanout")
	}
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	return "/usr/sbin/nginx", nil // which is not on everybody's PATH
}

const nchanConfig = `load_module MODULE;
daemon off;
worker_processes 1;
pid DIR/pid;
error_log stderr error;
events { worker_connections 60000; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  keepalive_requests 1000000;
  server {
    listen ADDRESS;
    location = /sub { nchan_subscriber websocket; nchan_channel_id room; }
    location = /pub { nchan_publisher http; nchan_channel_id room; nchan_store_messages off; }
  }
}
`

// serveNchan runs NGINX with one worker, and publishes to it by HTTP. What it uses is NGINX's.
func serveNchan(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	o, err := parseOffer(args)
	if err != nil {
		return err
	}
	program, err := nchanProgram()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "nchan")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, err := freeAddress()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("MODULE", nchanModule, "DIR", dir, "ADDRESS", address).Replace(nchanConfig)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-p", dir, "-c", config, "-e", "stderr")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its worker, too
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Cancel() // it may have ended
		_ = cmd.Wait()
	}()
	if err := dialable(address); err != nil {
		return err
	}
	return converseNchan(o, cmd.Process.Pid, address, in, out)
}

// converseNchan does what the other servers do themselves.
func converseNchan(o offer, pid int, address string, in io.Reader, out io.Writer) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, port)
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	before, err := cpuOf(pid)
	if err != nil {
		return err
	}
	next := time.Now()
	for i := range o.messages {
		response, err := http.Post("http://"+address+"/pub", "application/json", bytes.NewReader(message(uint64(i), someday))) //nolint:noctx // a program that is ended by hand
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
		_ = response.Body.Close()
		if response.StatusCode/100 != 2 {
			return fmt.Errorf("publish: status %d", response.StatusCode)
		}
		next = next.Add(time.Second / time.Duration(o.rate))
		time.Sleep(time.Until(next))
	}
	if _, err := lines.ReadString('\n'); err != nil { // all have arrived
		return err
	}
	after, err := cpuOf(pid)
	if err != nil {
		return err
	}
	line, err := json.Marshal(used{CPUSeconds: after - before, Deliveries: int64(o.viewers) * int64(o.messages)})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s\n", line)
	_, _ = io.Copy(io.Discard, lines) // the end of the input is ours
	return nil
}

// freeAddress is one that nobody listens on now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is there at once
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// dialable waits until somebody listens.
func dialable(address string) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address) //nolint:noctx // it is there at once
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}
