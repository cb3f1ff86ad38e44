package flink

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"loadstone/block/servertest"
)

// The image flink has Flink itself derive the sizes of a process, which refuses what does not fit; without containers the recipe does.
func TestTheSizesAreGoodForTheImage(t *testing.T) {
	t.Parallel()
	run := servertest.Fetched(t, "Flink", "flink-*/bin/flink-local")
	compose, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sizes strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^ *((?:job|task)manager\.memory\..*)$`).FindAllStringSubmatch(string(compose), -1) {
		sizes.WriteString(line[1] + "\n")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(sizes.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, heap := range map[string]string{"GET_JM_RESOURCE_PARAMS": "-Xmx184549376 ", "GET_TM_RESOURCE_PARAMS": "-Xmx251658240 "} { // as the recipe's
		out, err := exec.CommandContext(t.Context(), run, "org.apache.flink.runtime.util.bash.BashJavaUtils", what, "--configDir", dir).CombinedOutput()
		if err != nil || !strings.Contains(string(out), heap) {
			t.Errorf("%s: %v, want %s\n%s\nof\n%s", what, err, heap, out, &sizes)
		}
	}
}
