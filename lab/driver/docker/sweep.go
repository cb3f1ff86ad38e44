package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
)

const (
	// projectLabel is how Compose marks what belongs to a project.
	projectLabel = "com.docker.compose.project"
	// labLabel says where the lab of a run is; see driver.LabHost.
	labLabel = "loadstone.lab"
)

// removeScript removes all of a project but its named volumes. It looks twice,
// because the daemon may still be making what a killed client has asked for,
// and more often as long as something is left. What is being removed already
// makes `docker rm` fail, so only the last look counts.
const removeScript = `
docker=$1 project=label=com.docker.compose.project=$2 empty=0
for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	containers=$("$docker" ps --all --quiet --no-trunc --filter "$project") || exit 1
	[ -z "$containers" ] || said=$("$docker" rm --force --volumes $containers 2>&1)
	networks=$("$docker" network ls --quiet --no-trunc --filter "$project") || exit 1
	[ -z "$networks" ] || said=$("$docker" network rm $networks 2>&1)
	if [ -z "$containers$networks" ]; then
		empty=$((empty + 1))
		[ $empty -lt 2 ] || exit 0
	fi
	sleep 0.2
done
echo "$said" >&2
exit 1
`

// removal is the command that removes a project.
func (c *client) removal(project string) guardian.Command {
	env := slices.DeleteFunc(slices.Clone(c.env), func(entry string) bool {
		return strings.HasPrefix(entry, guardian.MarkVariable+"=")
	})
	return guardian.Command{Argv: []string{"/bin/sh", "-c", removeScript, "sh", c.docker, project}, Env: env}
}

// startGuardian has the run guarded before there is anything of it.
func (r *Running) startGuardian(ctx context.Context) error {
	guard, err := r.config.StartGuardian(ctx, r.config.LogDir)
	if err != nil {
		return err
	}
	r.guard = guard
	if err := r.guard.Mark(r.name); err != nil {
		return err
	}
	return r.guard.Remove(r.docker.removal(r.name))
}

// sweep removes what labs that no longer run have left on this daemon. It is
// the last of the nets, so what it cannot remove is worth a warning, not an
// error.
func (r *Running) sweep(ctx context.Context) {
	var projects []string
	for _, list := range [][]string{{"ps", "--all"}, {"network", "ls"}} {
		out, err := r.docker.quick(ctx, append(list, "--filter", "label="+labLabel+"="+driver.LabHost(r.config.ProcRoot), "--format", `{{.Label "`+projectLabel+`"}}`)...)
		if err != nil {
			r.Warnf("could not look for what earlier runs left: %v", err)
		}
		projects = append(projects, strings.Fields(string(out))...)
	}
	slices.Sort(projects)
	for _, project := range slices.Compact(projects) {
		if p, ok := driver.RunOwner(project); ok && !p.Alive(r.config.ProcRoot) {
			left := guardian.Left{Removals: []guardian.Command{r.docker.removal(project)}, ProcRoot: r.config.ProcRoot}
			if err := left.Clean(ctx); err != nil {
				r.Warnf("could not remove what an earlier run left: %v", err)
			}
		}
	}
	r.sweepDirs()
}

// sweepDirs removes their directories.
func (r *Running) sweepDirs() {
	base := r.config.Env["TMPDIR"]
	if base == "" {
		base = "/tmp"
	}
	dirs, err := filepath.Glob(filepath.Join(base, driver.RunPrefix+"*-*-*-*"))
	if err != nil {
		r.Warnf("could not look for what earlier runs left: %v", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		p, ok := driver.RunOwner(name[:strings.LastIndexByte(name, '-')])
		if _, err := os.Lstat(filepath.Join(dir, documentFile)); !ok || err != nil || p.Alive(r.config.ProcRoot) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			r.Warnf("could not remove what an earlier run left: %v", err)
		}
	}
}
