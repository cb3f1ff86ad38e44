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
// With --sentinel behind its configuration file it is a sentinel, which writes its state there: each instance needs a file
// of its own. In containers a config of the Compose file cannot be written, so the command may be a shell's, such as
// [sh, -c, SCRIPT, sh, /data/sentinel.conf, --sentinel]: the script makes the file, and finds redis-server, to which it
// hands its arguments, on its PATH.
//
// A health check with redis-cli would ask 127.0.0.1, so the PATH begins with a
// redis-cli that asks the instance's own address unless it is told another.
func startRedis(_ context.Context, in *Instance) (*Process, error) {
	args, err := in.arguments([]string{"redis-server"})
	given, shell := in.Service.Arguments, []string(nil)
	const script = 4 // sh, -c, what it does, and its name
	switch {
	case len(given) > script && given[0] == "sh" && given[1] == "-c":
		shell, args, err = given[:script], given[script:], nil
	case len(given) > 0 && strings.HasSuffix(given[0], ".conf"):
		args, err = given, nil // as the image takes it
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
		if _, err := os.Stat(file); err != nil && shell == nil {
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
	if shell != nil {
		if command, err = in.redisScript(shell, command); err != nil {
			return nil, err
		}
	}
	env := map[string]string{"PATH": filepath.Join(in.Dir, "bin") + ":" + in.Path}
	return &Process{Command: command, Env: env}, in.redisClient(args)
}

// redisScript is a script with the arguments of a command, which is what it finds as redis-server.
func (in *Instance) redisScript(shell, command []string) ([]string, error) {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = shellQuote(word)
	}
	text := "#!/bin/sh\nexec " + strings.Join(quoted, " ") + "\n"
	err := in.write(filepath.Join(in.Dir, "bin", "redis-server"), []byte(text), 0o755)
	return slices.Concat(shell, command[1:]), err
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
