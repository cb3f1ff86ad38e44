package cli

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/servertest"
)

var kills = flag.Int("kills", 5, "how many correctors TestKilledCorrectors kills")

// A corrector is killed at any moment: either nothing was corrected, or all replicas serve
// the correction soon, whatever they and Redis have kept of the old page.
//
//	go test ./internal/cli -run KilledCorrectors -v -kills 200
func TestKilledCorrectors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis := "redis://" + servertest.Redis(t).Addr()
	store := servertest.Postgres(t).Database(t)
	said(t, dir, "seed --students 1000 --store "+store, exitOK)
	said(t, dir, "preload --store "+store+" --redis "+redis, exitOK, "1000 written")
	var replicas []string
	for i := range 3 {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, serving(t, own, "--access", "open", "--cache", "memory+redis", "--store", store, "--redis", redis))
	}
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// As long as one takes that is let be, so that some are killed before the commit and
	// some after it.
	var takes time.Duration
	for _, name := range []string{"Let Be", "Timed"} {
		correctionFile(t, filepath.Join(dir, "c.csv"), name, 1000)
		began := time.Now()
		said(t, dir, "correct c.csv --store "+store, exitOK)
		takes = time.Since(began)
	}
	var slowest time.Duration
	committed := 0
	for n := range *kills {
		id, name := int64(1+n%900), fmt.Sprintf("Corrected %d", n)
		path := fmt.Sprintf("/student/%d", id)
		for _, address := range replicas { // the old page is in every tier
			eventually(t, "the old page", func() bool { return bodyAt(t, address+path) != "" })
		}
		correctionFile(t, filepath.Join(dir, "c.csv"), name, id)
		cmd := exec.CommandContext(t.Context(), program, "results", "correct", "c.csv", "--store", store)
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(takes/4 + rand.N(takes))
		_ = cmd.Process.Kill() // or it has ended
		_ = cmd.Wait()
		// What a killed one had asked for may be done yet: the next one waits for its lock.
		// The beginning of its transaction is before the commit.
		var at time.Time
		eventually(t, "the end of the killed one's session", func() bool {
			var sessions int
			err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").Scan(&sessions)
			return err == nil && sessions == 0
		})
		err := conn.QueryRow(t.Context(), "SELECT corrected_at FROM results.corrections WHERE student_id = $1 AND after->>'name' = $2", id, name).Scan(&at)
		if err != nil {
			at = time.Time{}
		}
		for _, address := range replicas {
			if at.IsZero() {
				if strings.Contains(bodyAt(t, address+path), name) {
					t.Errorf("kill %d: a correction is served that was never made", n)
				}
				continue
			}
			eventually(t, "kill "+fmt.Sprint(n)+": the correction", func() bool { return strings.Contains(bodyAt(t, address+path), name) })
			slowest = max(slowest, time.Since(at))
		}
		if !at.IsZero() {
			committed++
		}
	}
	t.Logf("%d correctors killed, %d of them after the commit; the last replica served the correction %v after the transaction began, at most", *kills, committed, slowest)
}
