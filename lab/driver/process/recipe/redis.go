package recipe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// startRedis has the official image's contract: the command `redis-server` with
// a configuration file and options, data in /data, no protected mode, since the
// network is the protection.
//
// With --sentinel behind its configuration file it is a sentinel, which writes its state there: the file has to be
// a config of the Compose file, with a content, so that each instance has its own.
//
// A health check with redis-cli would ask 127.0.0.1, so the PATH begins with a
// redis-cli that asks the instance's own address unless it is told another.
func startRedis(_ context.Context, in *Instance) (*Process, error) {
	args, err := in.arguments([]string{"redis-server"})
	if len(in.Service.Arguments) > 0 && strings.HasSuffix(in.Service.Arguments[0], ".conf") {
		args, err = in.Service.Arguments, nil // as the image takes it
	}
	if err != nil {
		return nil, err
	}
	data, err := in.dataDir("/data")
	if err != nil {
		return nil, err
	}
	command := []string{in.Files["redis-server"]}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		file := in.path(args[0])
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("its configuration file %s is not mounted: %w", args[0], err)
		}
		command, args = append(command, file), args[1:]
	}
	sentinel := slices.Contains(args, "--sentinel")
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--sentinel" })
	// A later option replaces an earlier one and those of the file.
	// A replica is known by the address that it is at, and not by the one that it connects from.
	command = append(command, "--dir", data, "--protected-mode", "no", "--replica-announce-ip", in.Host)
	command = append(command, in.pathFlags(args)...)
	command = append(command, "--daemonize", "no", "--bind", in.Host)
	if sentinel {
		command = append(command, "--sentinel", "announce-ip", in.Host) // else the one that it connects from
	}
	env := map[string]string{"PATH": filepath.Join(in.Dir, "bin") + ":" + in.Path}
	return &Process{Command: command, Env: env}, in.redisClient(args)
}

func (in *Instance) redisClient(args []string) error {
	port := "6379"
	for i, arg := range args {
		if arg == "--port" && i+1 < len(args) {
			port = args[i+1]
		}
	}
	text := fmt.Sprintf("#!/bin/sh\nexec %s -h %s -p %s \"$@\"\n", shellQuote(in.Files["redis-cli"]), shellQuote(in.Host), shellQuote(port))
	return in.write(filepath.Join(in.Dir, "bin", "redis-cli"), []byte(text), 0o755)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
