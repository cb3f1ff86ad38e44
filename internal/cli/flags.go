package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/spelling"
)

// flagMistake says what is wrong with a command's flags, and what to write instead.
func flagMistake(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return usagef("%s; see '%s --help'", unknownFlag(c, unknown), c.CommandPath())
	}
	if said := flagValue(err); said != err { //nolint:errorlint // the same, not the like
		return usagef("%w", said)
	}
	return usagef("%w; see '%s --help'", err, c.CommandPath())
}

// flagValue says what to write where a flag's value could not be read; any other error is as it was.
func flagValue(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	if invalid.GetFlag().Value.Type() == "duration" {
		return errors.New(wrongTime(invalid))
	}
	return fmt.Errorf("--%s %s%s", invalid.GetFlag().Name, spelling.Quote(invalid.GetValue()), wantedValue(invalid))
}

// wantedValue says what is wrong with a value that is none of its flag's type, and what to
// write: the sentence goes on after the value.
func wantedValue(err *pflag.InvalidValueError) string {
	if errors.Is(err, strconv.ErrRange) {
		return " is out of range; write a number nearer to 0"
	}
	switch err.GetFlag().Value.Type() {
	case "int", "int32", "int64":
		return " is no whole number; write one such as 10"
	case "uint", "uint64":
		return " is no whole number of at least 0; write one such as 10"
	case "float64":
		return " is no number; write one such as 2 or 0.5"
	case "bool":
		return " is neither true nor false; write one of these"
	case "intSlice":
		return " is no list of whole numbers; write one such as 200,404"
	}
	return ": " + err.Unwrap().Error()
}

// wrongTime says what to write for a time that is none.
func wrongTime(err *pflag.InvalidValueError) string {
	name, value := "--"+err.GetFlag().Name, err.GetValue()
	if bareNumber.MatchString(value) {
		return fmt.Sprintf("%s %s has no unit; write %s %ss, or %sms for milliseconds", name, value, name, value, value)
	}
	return fmt.Sprintf("%s %q is no time; write a number and its unit, such as %s 30s, 500ms or 2m", name, value, name)
}

var bareNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// unknownFlag says that there is no such flag, and which was meant.
func unknownFlag(c *cobra.Command, err *pflag.NotExistError) string {
	name := "--" + err.GetSpecifiedName()
	if err.GetSpecifiedShortnames() != "" {
		name = "-" + err.GetSpecifiedName()
	}
	what := "there is no flag " + name
	if instead := foreignFlags[name]; instead != "" && c.Name() == "load" {
		return what + "; write " + instead
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	if near, ok := spelling.Nearest(name, known); ok && strings.HasPrefix(name, "--") {
		return what + "; write " + near
	}
	return what
}

// foreignFlags are flags of other load generators, and what to write here.
var foreignFlags = map[string]string{
	"-c":               "--vus N for so many users at once, each with a connection (wrk, hey, ab)",
	"-t":               "--threads N for threads of the generator (wrk), --duration 30s for how long (Locust, ab)",
	"-n":               "--iterations N for so many requests (hey, ab)",
	"-z":               "--duration 30s (hey)",
	"-u":               "--vus N for so many users (k6, Locust)",
	"-i":               "--iterations N (k6)",
	"-R":               "--rate N/s (wrk2)",
	"-r":               "--rate N/s (wrk2), or --stages 30s:100 for users that come little by little (Locust)",
	"-s":               "the k6 script as the argument: loadstone load script.js; scripts of wrk are written as a file with steps, see docs/load.md",
	"-m":               "--method POST (hey)",
	"-T":               "-H 'Content-Type: …' (hey), or --timeout 5s",
	"-D":               "--body-file FILE (hey)",
	"-A":               "-H 'Accept: …' (hey)",
	"-L":               "nothing: the distribution of latencies is always shown (wrk)",
	"-k":               "--insecure (curl)",
	"--users":          "--vus N for so many users (Locust)",
	"--spawn-rate":     "--stages 30s:100 for users that come little by little (Locust)",
	"--run-time":       "--duration 30s (Locust)",
	"--concurrency":    "--vus N for so many users at once",
	"--requests":       "--iterations N",
	"--rps":            "--rate N/s (k6)",
	"--qps":            "--rate N/s (fortio)",
	"--latency":        "nothing: the distribution of latencies is always shown (wrk)",
	"--script":         "the k6 script as the argument: loadstone load script.js",
	"--data":           "-d 'the body' (curl)",
	"--data-raw":       "-d 'the body' (curl)",
	"--request":        "-X POST (curl)",
	"--out":            "--json FILE, --html FILE, --hdr FILE or --remote-write URL (k6)",
	"--vus-max":        "--max-vus N",
	"--max-redirects":  "nothing: redirects are not followed (k6)",
	"--targets":        "a file with steps and weights, see docs/load.md (vegeta)",
	"--summary-export": "--json FILE (k6)",
}

// looksLikeTime says whether a text is a time with its unit.
func looksLikeTime(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil && !bareNumber.MatchString(text)
}
