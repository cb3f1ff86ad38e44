package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The time of publication is the store's: every way to fill it, to show it and to change
// it, and what is refused.
func TestEmbargo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	try := func(code int, want, args string) {
		t.Helper()
		got := loadstone(t, dir, append([]string{"results"}, strings.Fields(args)...)...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("loadstone results %s: exit status %d, want %d with %q:\n%s%s", args, got.code, code, want, got.stdout, got.stderr)
		}
	}
	const early, late = "2126-07-20T08:00:00+03:00", "2126-07-20T10:00:00+03:00"
	const past = "2020-07-20T08:00:00+03:00"
	for _, store := range []string{"sqlite:a.db", "snapshot:a.snapshot"} {
		seed, embargo := "seed --students 100 --store "+store+" ", "embargo --store "+store+" "
		try(exitUsage, `--publish-at "2126-07-20" is no instant`, seed+"--publish-at 2126-07-20")
		try(exitUsage, `--publish-at "2126-07-20T08:00:00" is no instant`, seed+"--publish-at 2126-07-20T08:00:00") // whose eight o'clock?
		try(exitUsage, "2020-07-20T08:00:00+03:00 has passed", seed+"--publish-at "+past)
		try(exitFailed, "a.", embargo) // nothing was filled
		try(exitOK, "nothing is shown before "+early, seed+"--publish-at "+early)
		try(exitOK, "nothing is shown before "+early, embargo)
		// Filling again does not bring it forward, does postpone it, and says so.
		try(exitOK, "nothing is shown before "+early, seed)
		try(exitOK, "nothing is shown before "+early, seed+"--publish-at "+past)
		try(exitOK, "nothing is shown before "+late, seed+"--publish-at "+late)
		try(exitOK, "nothing is shown before "+late, seed+"--publish-at "+early)
		try(exitOK, "nothing is shown before "+late, "seed --students 50 --store "+store) // others
		// A command does what it says.
		try(exitOK, "nothing is shown before "+early, embargo+"--until "+early)
		try(exitUsage, past+" has passed", embargo+"--until "+past)
		try(exitUsage, `--until "tomorrow" is no instant`, embargo+"--until tomorrow")
		try(exitUsage, "write one of them", embargo+"--lift --until "+late)
		try(exitOK, "the results are out since "+time.Now().In(time.FixedZone("", 3*3600)).Format("2006-"), embargo+"--lift")
		// What is out stays out, until a command says otherwise.
		try(exitOK, "the results are out since", "seed --students 50 --store "+store+" --publish-at "+late)
		try(exitOK, "nothing is shown before "+late, embargo+"--until "+late)
	}
	// Never said: a later --publish-at holds for what is there.
	try(exitOK, "holds", "seed --students 20 --store sqlite:b.db")
	try(exitOK, "sqlite:b.db: the results are out\n", "embargo --store sqlite:b.db")
	try(exitOK, "nothing is shown before "+early, "seed --students 20 --store sqlite:b.db --publish-at "+early)

	// A snapshot gets what its database has, with new students or without.
	for _, change := range []string{"--until " + late, "--until " + early} {
		try(exitOK, "nothing is shown", "embargo --store sqlite:b.db "+change)
		try(exitOK, "nothing is shown before "+strings.TrimPrefix(change, "--until "), "publish --from sqlite:b.db --to snapshot:b.snapshot")
	}
	try(exitOK, "put the tree on no web server before", "export --from sqlite:b.db --to tree --key-file key --iterations 10")
	try(exitOK, "are out", "embargo --store sqlite:b.db --lift")
	try(exitOK, "nothing to do", "publish --from sqlite:b.db --to snapshot:b.snapshot")
	try(exitOK, "the results are out since", "embargo --store snapshot:b.snapshot")
	try(exitUsage, "--store", "embargo")
}

// A server does not ignore the time that it was given before: it says where it belongs.
func TestServeRefusesATimeOfPublication(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loadstone(t, dir, "results", "seed", "--students", "10", "--store", "sqlite:results.db")
	cmd := exec.CommandContext(t.Context(), program, "results", "serve", "--store", "sqlite:results.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "RESULTS_PUBLISH_AT=2126-07-20T08:00:00+03:00")
	output, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(output), "loadstone results embargo --store STORE --until 2126-07-20T08:00:00+03:00") {
		t.Errorf("got %v and %s", cmd.ProcessState, output)
	}
}
