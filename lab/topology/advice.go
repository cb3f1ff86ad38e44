package topology

import (
	"regexp"
	"strings"

	"loadstone/block/spelling"
)

// advices are what to write in place of what compose-go finds wrong.
var advices = []struct {
	of    *regexp.Regexp
	write string
}{
	{regexp.MustCompile(`has neither an image nor a build context`), "write image: NAME, build: DIRECTORY, or x-process: [PROGRAM, ARGUMENT]"},
	{regexp.MustCompile(`depends on undefined service`), "add that service, or take it out of depends_on"},
	{regexp.MustCompile(`^dependency cycle detected`), "take one of these out of depends_on"},
	{regexp.MustCompile(`must be greater than or equal to 0$`), "write 1 or more"},
	{regexp.MustCompile(`is no number for this key$`), `write one such as 2 or, for CPUs, "0.5"`},
}

// serviceKeys are the keys of a service that people write most.
var serviceKeys = []string{
	"build", "command", "cpus", "depends_on", "deploy", "entrypoint", "environment", "env_file", "expose", "extends", "healthcheck", "image", "labels",
	"mem_limit", "networks", "ports", "profiles", "restart", "stop_grace_period", "stop_signal", "user", "volumes", "working_dir",
	"services", "configs", "secrets", "name", "replicas", "resources", "limits", "memory", "interval", "retries", "start_period", "test", "timeout", "condition",
}

var unknownKey = regexp.MustCompile("Compose has no key `([^`]+)`$")

// advise adds what to write, where the sentence does not say so itself.
func advise(text string) string {
	if strings.Contains(text, "did not find expected key") {
		return "the lines of a mapping begin in different columns; indent them alike"
	}
	if m := unknownKey.FindStringSubmatch(text); m != nil {
		if near, ok := spelling.Nearest(m[1], serviceKeys); ok {
			return text + "; write " + near
		}
		return text + "; remove it, or begin it with x- if it is your own"
	}
	for _, a := range advices {
		if a.of.MatchString(text) {
			return text + "; " + a.write
		}
	}
	return text
}
