package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
)

// TestReadmeRuns runs the blocks of commands in README.md, with this test's program in place of helm and of kubectl.
func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "\n```sh\n")[1:]
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of commands were found", len(blocks))
	}
	for i, block := range blocks {
		script, _, _ := strings.Cut(block, "\n```")
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			t.Parallel()
			if out, err := runScript(t, self, tree, script); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
	for _, wrong := range []string{
		"helm install results deploy/helm/results --set nodes=3",
		"helm install results deploy/helm/result",
		"helm install results deploy/helm/results --await",
		"helm rollback results 1",
		"helm install results deploy/helm/results && helm rollback results 2",
		"helm install results deploy/helm/results && kubectl rollout status deployment/results-api",
		"kubectl create secret generic results --from-file=service",
	} {
		if out, err := runScript(t, self, tree, wrong); err == nil {
			t.Errorf("%s: got no error and %s", wrong, out)
		}
	}
}

func runScript(t *testing.T, self, tree, script string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, target := range map[string]string{
		"deploy": tree, "bin/helm": self, "bin/kubectl": self, "bin/loadstone": program(t),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "bin"), 0o755), os.Symlink(target, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// standIn is what this program does in place of helm or kubectl, which it is called as. What it knows of a release
// it keeps in the working directory.
func standIn(name string, args []string) error {
	if name == "kubectl" {
		return kubectl(args)
	}
	var plain []string
	given, reuse := values{}, false
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--set":
			i++
			if err := strvals.ParseInto(args[i], given); err != nil {
				return err
			}
		case a == "--reuse-values":
			reuse = true
		case a == "--wait" || a == "--install":
		case strings.HasPrefix(a, "-"):
			return fmt.Errorf("%s is not known here", a)
		default:
			plain = append(plain, a)
		}
	}
	if len(plain) < 2 {
		return fmt.Errorf("%v says too little", args)
	}
	release := plain[1]
	before, err := remembered(release)
	switch plain[0] {
	case "install", "template", "upgrade":
		if reuse {
			if err != nil {
				return err
			}
			given = chartutil.MergeTables(given, before[len(before)-1])
		}
		return made(release, plain[2], plain[0], before, given)
	case "rollback":
		if err == nil && plain[2] != fmt.Sprint(len(before)-1) {
			err = fmt.Errorf("there is no revision %s before the current one", plain[2])
		}
		return err
	case "uninstall":
		return err
	}
	return fmt.Errorf("%s is not known here", plain[0])
}

func remembered(release string) (all []values, err error) {
	text, err := os.ReadFile(release + ".json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// made renders a release, and remembers or prints it.
func made(release, path, how string, before []values, given values) error {
	objects, err := render(path, release, versions[0], given)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if _, err := decode(o); err != nil {
			return err
		}
	}
	manifest := bytes.Join(objects, []byte("---\n"))
	if how == "template" {
		_, err := os.Stdout.Write(manifest)
		return err
	}
	text, err := json.Marshal(append(before, given))
	return errors.Join(err, os.WriteFile(release+".json", text, 0o600), os.WriteFile(release+".objects", manifest, 0o600))
}

// kubectl checks that what it is asked about was made.
func kubectl(args []string) error {
	if len(args) == 5 && slices.Equal(args[:3], []string{"create", "secret", "generic"}) {
		files, err := os.ReadDir(strings.TrimPrefix(args[4], "--from-file="))
		if err == nil && len(files) == 0 {
			err = errors.New("there are no files")
		}
		return err
	}
	made, err := filepath.Glob("*.objects")
	if err != nil || len(made) == 0 {
		return errors.New("no release is installed")
	}
	text, err := os.ReadFile(made[0])
	for _, a := range args {
		if a == "--" {
			break
		}
		if kind, name, ok := strings.Cut(a, "/"); ok {
			for o := range strings.SplitSeq(string(text), "\n---\n") {
				if strings.Contains(strings.ToLower(o), "\nkind: "+kind+"\n") && strings.Contains(o, "\n  name: "+name+"\n") {
					return err
				}
			}
			return fmt.Errorf("there is no %s", a)
		}
	}
	return fmt.Errorf("%v is not known here", args)
}
