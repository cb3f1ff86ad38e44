package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
)

// Setting is something about the machine, the versions or the limits that
// differs between two runs.
type Setting struct {
	What   string `json:"what"`
	Base   string `json:"base"`
	Sample string `json:"sample"`
}

// settings are what differs around the measurements.
func settings(base, sample *result.Result, pairs []pair) []Setting {
	var out []Setting
	add := func(what, a, b string) {
		if a != b {
			out = append(out, Setting{What: what, Base: a, Sample: b})
		}
	}
	a, b := base.Environment, sample.Environment
	add("CPU", a.CPU, b.CPU)
	add("cores", strconv.Itoa(a.Cores), strconv.Itoa(b.Cores))
	add("memory", gibibytes(a.MemoryBytes), gibibytes(b.MemoryBytes))
	add("kernel", a.Kernel, b.Kernel)
	add("driver", a.Driver, b.Driver)
	add("limits enforced", yes(a.LimitsEnforced), yes(b.LimitsEnforced))
	add("control groups", fmt.Sprintf("v%d", a.CgroupVersion), fmt.Sprintf("v%d", b.CgroupVersion))
	add("cores kept awake", yes(a.CoresAwake), yes(b.CoresAwake))
	add("Loadstone", a.Version, b.Version)
	add("Go", a.Go, b.Go)
	add("seed", strconv.FormatUint(base.Seed, 10), strconv.FormatUint(sample.Seed, 10))
	add("objectives", strings.Join(objectives(base), ", "), strings.Join(objectives(sample), ", "))
	for _, p := range pairs {
		for _, name := range componentNames(p) {
			add(name+" of "+p.name, limits(p.base, name), limits(p.sample, name))
		}
	}
	return out
}

func gibibytes(n uint64) string { return format.Measured(float64(n)/(1<<30)) + " GiB" }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func componentNames(p pair) []string {
	var out []string
	for _, c := range slices.Concat(p.base.Components, p.sample.Components) {
		if !slices.Contains(out, c.Name) {
			out = append(out, c.Name)
		}
	}
	return out
}

// limits are the instances and shares of a component. Nothing is known of the
// components of a variant that held no rate.
func limits(v *result.Variant, name string) string {
	for _, c := range v.Components {
		if c.Name != name {
			continue
		}
		share := "unlimited"
		switch {
		case c.NoneSeen():
			return fmt.Sprintf("%d, not seen", c.Instances)
		case c.LimitCPUs > 0:
			share = format.Setting(c.LimitCPUs) + " CPU"
		}
		return fmt.Sprintf("%d × %s", c.Instances, share)
	}
	if len(v.Components) == 0 {
		return "not measured"
	}
	return "none"
}

// Line is a line that only one of two experiment files has.
type Line struct {
	// In is "base" or "sample"; Number counts the lines of that file from 1.
	In     string `json:"in"`
	Number int    `json:"number"`
	Text   string `json:"text"`
}

// maxCells bounds the table of the longest common subsequence: two files of
// 2,000 lines, 16 MiB. Of longer files nothing is said line by line.
const maxCells = 4 << 20

// lineDifference returns the lines in which two texts differ: what is left of
// each beside their longest common subsequence.
func lineDifference(base, sample string) []Line {
	if base == sample {
		return nil
	}
	a, b := split(base), split(sample)
	if (len(a)+1)*(len(b)+1) > maxCells {
		return []Line{{In: "base", Number: 1, Text: "(the files differ, and are too long to compare line by line)"}}
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if a[i] == b[j] {
				common[i*width+j] = 1 + common[(i+1)*width+j+1]
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var out []Line
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, Line{In: "base", Number: i + 1, Text: a[i]})
			i++
		default:
			out = append(out, Line{In: "sample", Number: j + 1, Text: b[j]})
			j++
		}
	}
	return out
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
