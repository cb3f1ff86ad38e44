package recipe

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/topology"
)

// adminDirs hold servers, and are often not on the PATH of users who are not
// root.
var adminDirs = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// versionWithin bounds a program's telling its version: one exec, with room
// for a busy machine.
const versionWithin = 20 * time.Second

// MissingError is a recipe whose programs are not installed.
type MissingError struct {
	Image   string // as the service names it
	Program string
	// Hint says how to get it, see Recipe.Hint.
	Hint string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("to run the image %s as a local process, the program %s is needed, which is not installed; %s, or run the system with Docker", e.Image, e.Program, e.Hint)
}

// Hint says how to get the recipe's programs, as a part of a sentence.
func (r *Recipe) Hint() string {
	if r.Build == fetch {
		return fmt.Sprintf("Debian has no package for it: get it with `%s` in the source directory of loadstone", fetch)
	}
	if r.Build != "" {
		return fmt.Sprintf("Debian has no package for it: build it with `%s` and put it on the PATH", r.Build)
	}
	return fmt.Sprintf("install the Debian package %s (apt-get install %s)", r.Package, r.Package)
}

// Found is a recipe whose programs are installed.
type Found struct {
	*Recipe

	// Files are the programs' files by name.
	Files map[string]string
	// Warning says that another major version runs than the image's tag asks
	// for; empty if that is not so, or not known.
	Warning string
}

// Locate finds the recipe's programs for an image: the version that its tag
// asks for if several are installed, else the newest. path is a PATH. Its error
// is a *MissingError.
func (r *Recipe) Locate(ctx context.Context, image, path string) (*Found, error) {
	_, tag := topology.SplitImage(image)
	asked := numbers(tag)
	asked = asked[:min(len(asked), r.versionParts)]
	for _, dir := range r.candidates(asked, path) {
		files := map[string]string{}
		for _, name := range r.Programs {
			if file := filepath.Join(dir, name); runnable(file) {
				files[name] = file
			}
		}
		if len(files) == len(r.Programs) {
			f := &Found{Recipe: r, Files: files}
			f.Warning = f.compare(ctx, image, asked)
			return f, nil
		}
	}
	return nil, &MissingError{Image: image, Program: r.Programs[0], Hint: r.Hint()}
}

// majorPattern finds the major version in a directory such as
// /usr/lib/postgresql/15/bin.
var majorPattern = regexp.MustCompile(`(\d+)[^/]*/bin$`)

// candidates are the directories to look in, best first.
func (r *Recipe) candidates(asked []int, path string) []string {
	var own []string
	cache, errCache := os.UserCacheDir()
	for _, pattern := range r.dirs {
		if !filepath.IsAbs(pattern) {
			if errCache != nil {
				continue // a user without a home directory has no cache
			}
			pattern = filepath.Join(cache, pattern)
		}
		matches, err := filepath.Glob(pattern)
		if err == nil { // the patterns are constants
			own = append(own, matches...)
		}
	}
	major := func(dir string) int {
		found := majorPattern.FindStringSubmatch(dir)
		if found == nil {
			return 0
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return 0 // more digits than a version has
		}
		return n
	}
	slices.SortStableFunc(own, func(a, b string) int {
		if len(asked) > 0 && (major(a) == asked[0]) != (major(b) == asked[0]) {
			if major(a) == asked[0] {
				return -1
			}
			return 1
		}
		return cmp.Compare(major(b), major(a))
	})
	own = append(own, strings.Split(path, ":")...)
	own = append(own, adminDirs...)
	return slices.DeleteFunc(own, func(dir string) bool { return !filepath.IsAbs(dir) })
}

func runnable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var versionPattern = regexp.MustCompile(`\d+(?:\.\d+)+`)

// compare asks the program for its version if the tag states one.
func (f *Found) compare(ctx context.Context, image string, asked []int) string {
	if len(asked) == 0 {
		return ""
	}
	out, err := f.version(ctx)
	version := versionPattern.FindString(out)
	runs := numbers(version)
	if err != nil || len(runs) < len(asked) {
		return fmt.Sprintf("the image %s requests a version, but the version of %s could not be determined", image, f.Programs[0])
	}
	if slices.Equal(runs[:len(asked)], asked) {
		return ""
	}
	return fmt.Sprintf("the image is %s, but the installed version, %s %s, is used", image, f.Programs[0], version)
}

// version is what the program tells when it is asked for its version.
func (f *Found) version(ctx context.Context) (string, error) {
	file, flag := f.Files[f.Programs[0]], "--version"
	switch f.Image {
	case "nginx":
		flag = "-v"
	case "varnish":
		flag = "-V"
	case "versity/versitygw": // one that was built from its module does not know
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return "", err
		}
		return info.Main.Version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, flag).CombinedOutput()
	return string(out), err
}
