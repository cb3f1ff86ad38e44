package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/internal/project"
)

// TestMachinesAreReachedBySSH measures a system that runs already, with ssh itself: an agent watches it and changes its
// limit, and two generators load it. The machines are one SSH server on loopback, under two names.
func TestMachinesAreReachedBySSH(t *testing.T) {
	servertest.Large(t)
	s := newSite(t, `
services:
  api:
    image: loadstone
    command: [results, serve, --store, "sqlite:${DATA_VOLUME:-/data}/results.db", --listen, "${BIND_HOST:-0.0.0.0}:8080", --access, open]
    volumes: [data:/data]
    ports: ["8080"]
    depends_on: {seed: {condition: service_completed_successfully}}
    deploy: {resources: {limits: {cpus: "0.1", memory: 256M}}}
  seed:
    image: loadstone
    command: [results, seed, --store, "sqlite:${DATA_VOLUME:-/data}/results.db", --students, "300"]
    volumes: [data:/data]
volumes: {data: {}}
`)
	s.reach("node-a", "node-b")
	s.want(exitOK, "", "up", "compose.yaml", "--detach", "-p", "there")
	record, ok := s.record("there")
	at := slices.IndexFunc(record.Services, func(x project.Service) bool { return x.Name == "api" })
	if !ok || at < 0 {
		t.Fatalf("api is not up: %+v", record)
	}
	s.write("there.yaml", fmt.Sprintf("services: {api: {x-addresses: {node-a: [%q]}}}\n", record.Services[at].Addresses[0]))
	s.write("attached.yaml", "name: attached\nquestion: What limits results?\nsystem: there.yaml\nentry: api\nvariants: {as-is: {}}"+
		strings.ReplaceAll(loadOfLookups, "PATH", "/student/{id}"))
	got := s.run("run", "attached.yaml", "--driver", "attach", "--generators", "ssh://node-a,ssh://node-b", "--may-limit", "api")
	if got.code != exitOK && got.code != exitCrossed {
		t.Fatalf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	dir := onlyRun(t, s.dir)
	v := derivedResult(t, dir).Variants[0]
	wantLimit(t, "by ssh", v.Verdict, "api")
	text, err := os.ReadFile(filepath.Join(dir, "trials/001-as-is/trial.json"))
	var trial struct {
		Warnings []string `json:"warnings"`
		Measures []struct {
			Result struct {
				Offered int `json:"offered"`
				Parts   []struct {
					Offered int `json:"offered"`
				} `json:"parts"`
			} `json:"result"`
		} `json:"measures"`
	}
	if err == nil {
		err = json.Unmarshal(text, &trial)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the clock of node-a is", "the clock of generator node-a is", "the clock of generator node-b is"} {
		if !slices.ContainsFunc(trial.Warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no warning says how far apart %q: %q", want, trial.Warnings)
		}
	}
	for i, m := range trial.Measures {
		if r := m.Result; len(r.Parts) != 2 || r.Parts[0].Offered+r.Parts[1].Offered != r.Offered {
			t.Errorf("load %d: two generators offered %+v, together %d", i, r.Parts, r.Offered)
		}
	}
}

// reach has `ssh NAME` of the site's commands reach an SSH server of its own on loopback, and that find loadstone.
func (s *site) reach(names ...string) {
	s.t.Helper()
	const sshd, apart = "/usr/sbin/sshd", "/run/sshd"
	if _, err := os.Stat(sshd); err != nil {
		servertest.Missing(s.t, "OpenSSH's server is not installed: run scripts/setup ssh")
	}
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // where it has its rights apart
		if err := os.Mkdir(apart, 0o755); err == nil {
			s.t.Cleanup(func() { _ = os.Remove(apart) })
		} else if !os.IsExist(err) {
			must(err)
		}
	}
	for _, key := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, key)).CombinedOutput()
		if err != nil {
			s.t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	bin := filepath.Join(s.dir, "bin")
	must(os.Mkdir(bin, 0o755))
	must(os.Symlink(program, filepath.Join(bin, "loadstone")))
	host := servertest.Host()
	s.write("sshd_config", fmt.Sprintf("ListenAddress %s:2222\nHostKey %s/host\nAuthorizedKeysFile %s/user.pub\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSetEnv PATH=%s:/usr/bin:/bin\n",
		host, s.dir, s.dir, bin))
	s.write("ssh_config", fmt.Sprintf("Host %s\n HostName %s\n Port 2222\n IdentityFile %s/user\n IdentitiesOnly yes\n UserKnownHostsFile %s/known\n StrictHostKeyChecking accept-new\n",
		strings.Join(names, " "), host, s.dir, s.dir))
	must(os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nexec /usr/bin/ssh -F "+s.dir+"/ssh_config \"$@\"\n"), 0o755))
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"))
	servertest.New(s.t, servertest.Program{
		Command: []string{sshd, "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config")},
		Log:     filepath.Join(s.dir, "sshd.log"),
		Ready: func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, filepath.Join(bin, "ssh"), names[0], "loadstone", "--version").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("ssh %s loadstone --version: %w: %s", names[0], err, out)
			}
			return err
		},
	}).Start()
}
