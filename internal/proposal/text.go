package proposal

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"loadstone/lab/format"
)

// NeedsOverride says whether anything is to be merged over the Compose file.
func (p *Proposal) NeedsOverride() bool {
	return len(p.Limited)+len(p.Starts)+len(p.Unknown)+len(p.Environment) > 0 || p.OwnNetwork
}

// Override is the text of a Compose file that is merged over the system's: what measuring
// needs, so that the system's own file stays as it is.
func (p *Proposal) Override() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What measuring needs beside %s; it is merged over that file, which stays as it is.
#
# - A CPU limit for every service: without one a service's CPU cannot be told from the
#   machine's, and it is never named as the bottleneck. Write what production gives it, or
#   the same fraction of that for all: here each has %s CPU.
`, p.file, format.Setting(p.CPUs))
	if len(p.Starts)+len(p.Unknown) > 0 {
		b.WriteString(`# - x-process: how the service starts as a local process, without Docker, in the directory
#   that its image is built from.
`)
	}
	if len(p.Environment) > 0 {
		b.WriteString(`# - Addresses: ${DB_HOST:-db} is where the service db is; db is what Docker resolves. Let your
#   programs listen on ${BIND_HOST:-0.0.0.0}, or on every address if each has one instance.
`)
	}
	if p.OwnNetwork {
		fmt.Fprintf(&b, `# - x-network: each instance has a network of its own, in which services are found by name,
#   as with Docker; that takes root. The reason:
#   %s.
x-network: own
`, strings.Join(p.UntoldTexts(), ".\n#   "))
	}
	b.WriteString("services:\n")
	for _, name := range p.services() {
		fmt.Fprintf(&b, "  %s:\n", name)
		if argv := p.Starts[name]; argv != nil {
			fmt.Fprintf(&b, "    x-process: %s # from its Dockerfile\n", flow(argv))
		}
		if slices.Contains(p.Unknown, name) {
			b.WriteString("    # x-process: [PROGRAM, ARGUMENT] # not found in its Dockerfile; write it here, or run with --driver docker\n")
		}
		if vars := p.Environment[name]; len(vars) > 0 {
			b.WriteString("    environment:\n")
			for _, key := range slices.Sorted(maps.Keys(vars)) {
				fmt.Fprintf(&b, "      %s: %s\n", key, quoted(vars[key]))
			}
		}
		if slices.Contains(p.Limited, name) {
			fmt.Fprintf(&b, "    deploy: {resources: {limits: {cpus: %q}}}\n", format.Setting(p.CPUs))
		}
	}
	return b.String()
}

// UntoldTexts say of each service in Untold what may be in its program.
func (p *Proposal) UntoldTexts() []string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(p.Untold)) {
		all := p.Untold[name]
		texts = append(texts, fmt.Sprintf("%s depends on %s, and no variable says where that is: its name may be in the program", name, strings.Join(all, ", ")))
	}
	return texts
}

// services are those that something is proposed for.
func (p *Proposal) services() []string {
	all := slices.Concat(p.Limited, p.Unknown, slices.Collect(maps.Keys(p.Starts)), slices.Collect(maps.Keys(p.Environment)))
	slices.Sort(all)
	return slices.Compact(all)
}

var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Experiment is the text of the experiment file, which is to be called name. override is the
// path of Override's file; empty if there is none.
func (p *Proposal) Experiment(name, override string) string {
	system := p.file
	if override != "" {
		system = fmt.Sprintf("[%s, %s]", p.file, override)
	}
	var feeds strings.Builder
	for _, m := range placeholder.FindAllStringSubmatch(p.Request, -1) {
		fmt.Fprintf(&feeds, "        %s: {uniform: [1, 1000]} # whole numbers, or {csv: FILE}\n", m[1])
	}
	feed := "      feed:\n" + feeds.String()
	if feeds.Len() == 0 {
		feed = `      # With values: request: GET /item/{id}, and below it
      # feed: {id: {uniform: [1, 1000]}}
`
	}
	return fmt.Sprintf(`# The highest rate that %[2]s sustains, and what limits it.
#   loadstone run %[7]s --check   what would be run, and how long it takes
#   loadstone run %[7]s           runs it
name: %[8]s
question: What limits %[1]s?
system: %[3]s

# The service that takes the load: %[4]s.
entry: %[2]s

variants:
  # The first is the baseline; {} is the system as it is.
  baseline: {}
  # What may help, as an override of the Compose file, is measured beside it:
  # two: {services: {%[2]s: {deploy: {replicas: 2}}}}

load:
  warmup: 10s # offered first in each trial and not measured: caches fill, and just-in-time compilers compile
  scenarios:
    first:
      executor: constant-arrival-rate # requests come at a rate, however slow the answers are
      request: %[5]s
%[6]s
# What is good enough: the capacity is the highest rate at which all of these are met.
slo:
  http_req_duration: [p(95)<200] # ms
  http_req_failed: [rate<0.01]

measure: capacity
search: {budget: 25s} # of load in each trial; with the rest the run takes less than three minutes
# Each trial starts the system afresh. The capacity's interval holds at 75 %% with 3 trials and at
# 97 %% with 6; to show a difference between two variants takes 4.
trials: 3
`, p.Name, p.Entry, system, p.Why, p.Request, feed, name, quoted(p.Name))
}

// flow is a list in YAML's flow style.
func flow(argv []string) string {
	texts := make([]string, len(argv))
	for i, a := range argv {
		texts[i] = quoted(a)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

var plainScalar = regexp.MustCompile(`^[A-Za-z./_][A-Za-z0-9./_-]*$`)

// quoted is a text in YAML: plain where that cannot be read as anything else.
func quoted(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n", ".inf", ".nan":
	default:
		if plainScalar.MatchString(text) {
			return text
		}
	}
	out, err := json.Marshal(text) // JSON's strings are YAML's
	if err != nil {
		return `""`
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(out))
}
