package remotewrite

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Config says where to write, and as what.
type Config struct {
	// URL is the receiver's whole URL, such as
	// http://127.0.0.1:9090/api/v1/write. A user and a password in it are sent
	// as basic authentication.
	URL string
	// Header is sent with each request: a token, or a tenant.
	Header map[string]string
	// Run is the value of the label run, by which loads are told apart.
	Run string
	// Labels are more labels for all series.
	Labels map[string]string
	// Timeout bounds one push, repeats included.
	Timeout time.Duration
	// Queue is how many windows wait at most while the receiver is slow.
	Queue int
}

// DefaultConfig returns a Config for a receiver and a run.
func DefaultConfig(receiver, run string) Config {
	return Config{
		URL: receiver, Run: run,
		// A healthy receiver answers in milliseconds. Ten seconds outlast a
		// restart or a compaction, and the queue outlasts ten such pushes.
		Timeout: 10 * time.Second,
		Queue:   120, // two minutes; a window is a few KiB
	}
}

// reserved are the labels that the series themselves use.
var reserved = []string{"job", "run", "quantile", "kind"}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Validate returns all that is wrong.
func (c *Config) Validate() error {
	problems := []error{c.validateURL()}
	if c.Timeout <= 0 {
		problems = append(problems, fmt.Errorf("a push must be given time, got %v; write a timeout such as 10s", c.Timeout))
	}
	if c.Queue < 1 {
		problems = append(problems, fmt.Errorf("the queue must hold a window at least, got %d; write a number such as 120", c.Queue))
	}
	if !utf8.ValidString(c.Run) {
		problems = append(problems, fmt.Errorf("the run's name %q is not UTF-8", c.Run))
	}
	for name, value := range c.Labels {
		switch {
		case slices.Contains(reserved, name):
			problems = append(problems, fmt.Errorf("the label %s is Loadstone's own; choose another name than %s", name, strings.Join(reserved, ", ")))
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			problems = append(problems, fmt.Errorf("%q is no name for a label; write letters, digits and _, without a digit or __ in front", name))
		case !utf8.ValidString(value):
			problems = append(problems, fmt.Errorf("the value %q of the label %s is not UTF-8", value, name))
		}
	}
	return errors.Join(problems...)
}

func (c *Config) validateURL() error {
	const instead = "write the receiver's whole URL, such as http://127.0.0.1:9090/api/v1/write"
	u, err := url.Parse(c.URL)
	switch {
	case err != nil: // whose text may hold a password
		return fmt.Errorf("the remote write URL cannot be read; %s", instead)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("%q is no remote write URL; %s", u.Redacted(), instead)
	case strings.Trim(u.Path, "/") == "":
		return fmt.Errorf("the remote write URL %q has no path; %s", u.Redacted(), instead)
	}
	return nil
}

// receiver is the URL without its password, for messages.
func (c *Config) receiver() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "the receiver"
	}
	return u.Redacted()
}
