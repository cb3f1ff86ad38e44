package topology

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
)

// rewrites turn what compose-go says into what a reader of the file can use.
// They only reword: an error that none of them knows is passed on as it is.
var rewrites = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`^validating \S+: +`), ""},
	{regexp.MustCompile(`^failed to parse \S+: `), ""},
	{regexp.MustCompile(`yaml: construct errors: line \d+: `), ""},
	{regexp.MustCompile(`^decoding failed due to the following error\(s\): `), ""},
	{regexp.MustCompile(`: invalid compose project\b`), ""},
	{regexp.MustCompile(`'services\[([^\]]+)\]\.([^']+)' `), "services.$1.$2: "},
	{regexp.MustCompile(`error while interpolating (\S+): `), "$1: "},
	{regexp.MustCompile(`failed to cast to expected type: `), ""},
	{regexp.MustCompile(`strconv\.\w+: parsing ("[^"]*"): (?:invalid syntax|value out of range)`), "$1 is no number for this key"},
	{regexp.MustCompile(`^(\S+)\.([^.\s]+) false schema`), "$1: Compose has no key `$2`"},
	{regexp.MustCompile(`^(\S+) additional properties '([^']+)' not allowed`), "$1: Compose has no key `$2`"},
	{regexp.MustCompile(`^additional properties '([^']+)' not allowed`), "Compose has no key `$1`"},
	{regexp.MustCompile(`must be a (array|integer|object)`), "must be an $1"},
	{regexp.MustCompile(`invalid suffix: '([^']*)'`), "`$1` is no unit; write for example 64M or 1G"},
	{regexp.MustCompile(`stat \S+: `), ""},
	{regexp.MustCompile(`^Invalid (?:container|host)Port: (\d+)$`), "$1 is not a port; write one from 1 to 65535"},
}

var blanks = regexp.MustCompile(`\s*\n\s*`)

// explain turns an error of compose-go into one sentence that begins with the
// file's name.
func explain(file string, err error) error {
	return &MistakeError{File: file, Message: reword(err), cause: err}
}

func reword(err error) string {
	if bad, ok := errors.AsType[*template.InvalidTemplateError](err); ok {
		// The cause's own text is three lines of which the first has the key.
		key, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "invalid interpolation format for "), ".\n")
		return fmt.Sprintf("%s: `%s` is not a valid variable; write ${NAME} or ${NAME:-default}, and $$ for a dollar sign", key, bad.Template)
	}
	text := strings.TrimSpace(err.Error())
	// Several causes come on lines of their own; the first line may only
	// announce them.
	text = strings.ReplaceAll(text, "error(s):\n", "error(s): ")
	text = strings.ReplaceAll(text, "errors:\n", "errors: ")
	text = strings.Join(strings.Fields(strings.TrimSpace(blanks.ReplaceAllString(text, " ; "))), " ")
	text = strings.ReplaceAll(text, "error(s): ; ", "error(s): ")
	text = strings.ReplaceAll(text, " ; ", "; ")
	for _, r := range rewrites {
		text = r.from.ReplaceAllString(text, r.to)
	}
	return text
}
