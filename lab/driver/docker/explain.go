package docker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"loadstone/lab/driver"
)

// Error is a Docker command that failed.
type Error struct {
	text string
	// Said is all that the command wrote.
	Said  string
	cause error
}

func (e *Error) Error() string { return e.text }

func (e *Error) Unwrap() error { return e.cause }

// reasons turn what Docker and Compose say into one sentence that says what to
// do. $1 is the first group of the pattern.
var reasons = []struct {
	said *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`(?i)permission denied .*(?:docker daemon|docker\.sock|docker API)|docker\.sock.*permission denied|PermissionError\(13`), "this user may not talk to the Docker daemon; run as root, or have the user added to the group docker"},
	{regexp.MustCompile(`(?i)cannot connect to the docker daemon at (\S+)\. is`), "the Docker daemon does not answer at $1; start it (systemctl start docker), or say with DOCKER_HOST where it is"},
	{regexp.MustCompile(`(?i)cannot connect to the docker daemon|couldn't connect to docker daemon|failed to connect to the docker API|connection refused.*docker`), "the Docker daemon does not answer; start it (systemctl start docker), or say with DOCKER_HOST where it is"},
	{regexp.MustCompile(`(?i)(?:pull access denied for|repository) (loadstone)(?:,| not found)`), "the image $1 is not on this machine; build it with `docker build -t loadstone -f deploy/Dockerfile .`"},
	{regexp.MustCompile(`(?i)(?:pull access denied for|repository) ([^\s,]+)(?:,| not found)`), "the image $1 is not on this machine and there is none to pull; build or load it, or correct its name"},
	{regexp.MustCompile(`(?i)manifest for (\S+) not found`), "there is no image $1 to pull; correct its name or tag"},
	{regexp.MustCompile(`(?is)(dial tcp: lookup \S+).*no such host|(dial tcp \S+: i/o timeout)|(TLS handshake timeout)|(net/http: request canceled while waiting for connection)`), "an image is not on this machine and cannot be pulled, because its registry cannot be reached ($1$2$3$4); pull, build or load it first"},
	{regexp.MustCompile(`(?i)(?:Bind for|listen tcp4?|listen tcp6?) (\S+?):? ?(?:failed: port is already allocated|bind: address already in use)`), "the port $1 of this machine is taken; stop what uses it, or publish another one in `ports`"},
	{regexp.MustCompile(`(?i)exec: \\?"([^"\\]+)\\?": (?:executable file not found|stat \S+ no such file)`), "there is no program $1 in the image"},
	{regexp.MustCompile(`(?i)bind source path does not exist: (\S+)|Cannot create container for service \S+: invalid mount config.*: (\S+)`), "there is nothing to mount at $1$2"},
	{regexp.MustCompile(`(?i)could not find an available.* IPv4 address pool|all predefined address pools have been fully subnetted`), "Docker has no network left for another project; remove unused ones with `docker network prune`"},
}

// explain makes the error of a command of what it said.
func explain(what, said string, cause error) error {
	said = strings.TrimSpace(said)
	e := &Error{Said: said, cause: cause}
	for _, r := range reasons {
		if m := r.said.FindStringSubmatchIndex(said); m != nil {
			e.text = string(r.said.ExpandString(nil, r.text, said, m))
			return e
		}
	}
	switch {
	case said != "":
		e.text = fmt.Sprintf("%s failed: %s", what, driver.LastLine(said))
	case cause != nil:
		e.text = fmt.Sprintf("%s failed: %v", what, cause)
	default:
		e.text = what + " failed"
	}
	return e
}

// isGone says whether an error is that what was asked for is not there any more.
func isGone(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (strings.Contains(e.Said, "No such container") || strings.Contains(e.Said, "is not running"))
}
