package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"loadstone/system/chat"
)

// peers are the sources of the other servers: a module of its own, whose files have names that
// keep it out of this one.
//
//go:embed peers
var peers embed.FS

// installed is where scripts/setup fanout has put what the servers in JavaScript need.
const installed = ".tools/fanout/node_modules"

// build makes the servers that take part, in the order of their turns, and says why others do not.
func build(ctx context.Context, dir string, hub server) (all []server, missing []string, err error) {
	c, err := inC(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	source := filepath.Join(dir, "peers")
	for from, to := range map[string]string{"centrifuge.go.txt": "main.go", "go.mod.txt": "go.mod", "go.sum.txt": "go.sum"} {
		if err := os.Rename(filepath.Join(source, from), filepath.Join(source, to)); err != nil {
			return nil, nil, err
		}
	}
	peer := server{name: "centrifuge", command: []string{filepath.Join(dir, "centrifuge")}, args: offer.args, greet: centrifuge, peer: true}
	if err := compile(ctx, source, "go", "build", "-o", peer.command[0], "."); err != nil {
		return nil, nil, err
	}
	const tick = 50 * time.Millisecond
	slowHub, slowPeer := hub, peer
	slowHub.tick, slowPeer.tick = tick, tick
	packed := slowHub // as for browsers, which all offer it
	packed.name, packed.deflate = "hub, compressed", true
	all = []server{c, hub, slowHub, packed, peer, slowPeer, calmly(c), calmly(hub), calmly(slowHub)}
	scripts, err := inJavaScript(source)
	if err != nil {
		missing = append(missing, err.Error())
	}
	all = append(all, scripts...)
	if _, err := nchanProgram(); err != nil {
		return all, append(missing, err.Error()), nil
	}
	return append(all, server{name: "nchan on NGINX", command: []string{hub.command[0], "nchan"}, args: offer.args, greet: &greeting{path: "/sub"}, peer: true}), missing, nil
}

// calmly is a server beside calm viewers.
func calmly(s server) server {
	s.name, s.calm = s.name+", calm", true
	return s
}

// inC makes the C program, and copies all sources.
func inC(ctx context.Context, dir string) (server, error) {
	program, frame := filepath.Join(dir, "c"), filepath.Join(dir, "frame")
	room := chat.NewRoom(chat.DefaultRoomConfig(), 0)
	room.Append(0, message(0, someday))
	if err := os.WriteFile(frame, room.Newest(0).Bytes, 0o600); err != nil {
		return server{}, err
	}
	if err := os.CopyFS(dir, peers); err != nil {
		return server{}, err
	}
	args := func(o offer) []string { return append(o.args()[:3], frame) }
	return server{name: "C, writes in a loop", command: []string{program}, args: args},
		compile(ctx, filepath.Join(dir, "peers"), "cc", "-O2", "-o", program, "loop.c")
}

func compile(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") //nolint:forbidigo // a program of its own; there is C in the directory
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, text)
	}
	return nil
}

// inJavaScript are the servers whose sources are in a directory's js.
func inJavaScript(source string) ([]server, error) {
	libraries, err := filepath.Abs(installed)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(libraries); err != nil {
		return nil, errors.New("ws, socket.io and uWebSockets: run scripts/setup fanout, and the bench beside it")
	}
	source = filepath.Join(source, "js")
	if err := os.Symlink(libraries, filepath.Join(source, "node_modules")); err != nil {
		return nil, err
	}
	buns, err := filepath.Glob(filepath.Join(libraries, "@oven/bun-*/bin/bun"))
	if err != nil || len(buns) == 0 {
		return nil, errors.New("there is no Bun for this machine: run scripts/setup fanout")
	}
	args := func(o offer) []string { return o.args()[:3] }
	return []server{
		{name: "ws on node", command: []string{"node", filepath.Join(source, "ws.mjs")}, args: args, greet: &greeting{path: "/"}, peer: true},
		{name: "socket.io on node", command: []string{"node", filepath.Join(source, "socketio.mjs")}, args: args,
			greet: &greeting{path: "/socket.io/?EIO=4&transport=websocket", says: "40", expects: `40{"sid"`}, peer: true},
		{name: "uWebSockets in Bun", command: []string{buns[0], filepath.Join(source, "bun.mjs")}, args: args, greet: &greeting{path: "/"}, peer: true},
	}, nil
}
