// Package selftest plants systems of which it is known what limits them, has
// them measured like anybody's, and scores what the verdict says. It is how a
// verdict earns belief: a judge that is never tried on cases with a known answer
// can be wrong for years.
//
// A planted system is a Compose project of plants (package plant) and an
// experiment, both written to files that `loadstone run` takes as well. Its
// parameters (who gets which share, how much work a request is) are drawn from
// the seed, within ranges in which the answer stays clear: the planted limit is
// reached at less than half of what any other part sustains.
//
// The expected answers are the truth about what was planted. They do not follow
// what the verdict is able to say.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/result"
	"loadstone/lab/runner"
	"loadstone/lab/selftest/plant"
)

// Planted is one system with a known limit.
type Planted struct {
	Name  string
	What  string // what was planted, in a few words
	Truth Truth
	Quick bool // one of the few that are run where time is short
	// Unlimited is run where nothing enforces CPU limits.
	Unlimited bool

	build func(*draw) project
}

// Config says what to run.
type Config struct {
	// Dir gets one directory for each system, with its files and its run.
	Dir     string
	Seed    uint64
	Systems []Planted
	// Seeds is how many seeds each system is planted with, Seed and those that follow it; 0
	// for that one alone.
	Seeds uint64
	// Busy: other programs may use the machine meanwhile. A wrong verdict is then
	// measured again, twice at most and with other seeds, and left out of the score
	// if even the last measurement was disturbed and named nothing. A pair is measured once.
	Busy bool
	// Measure runs the experiment in the file at path, keeps its raw data below
	// dir, and returns what it found and where that data is.
	Measure func(ctx context.Context, path, dir string) (*result.Result, string, error)
	// Unlimited is Measure where nothing enforces CPU limits.
	Unlimited func(ctx context.Context, path, dir string) (*result.Result, string, error)
	// Started and Ended frame a system. Either may be nil.
	Started func(number int, p Planted)
	Ended   func(number int, r Row)
}

// Choose returns the systems of those names, in the order of [Systems] and [Pairs]. An
// unknown name is an error that lists the known ones.
func Choose(names []string) ([]Planted, error) {
	var known []string
	var out []Planted
	for _, p := range append(Systems(), Pairs()...) {
		known = append(known, p.Name)
		if slices.Contains(names, p.Name) {
			out = append(out, p)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no system %q exists; write one of: %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// Quick returns the few that are run where time is short.
func Quick() []Planted {
	return slices.DeleteFunc(Systems(), func(p Planted) bool { return !p.Quick })
}

// Run measures every system and scores what was said of it. One that cannot be
// measured counts as wrong. The error is only of the self-test itself.
func Run(ctx context.Context, c Config) (*Score, error) {
	s := &Score{Seed: c.Seed, Started: time.Now()}
	for seed := c.Seed; seed < c.Seed+max(c.Seeds, 1); seed++ {
		for _, p := range c.Systems {
			n := len(s.Rows) + 1
			if c.Started != nil {
				c.Started(n, p)
			}
			row, err := c.row(ctx, p, seed)
			if err != nil {
				return nil, err
			}
			s.Rows = append(s.Rows, row)
			if c.Ended != nil {
				c.Ended(n, row)
			}
		}
	}
	s.conclude()
	return s, nil
}

// row measures one system, and again if the machine is busy and the verdict wrong.
func (c *Config) row(ctx context.Context, p Planted, seed uint64) (Row, error) {
	const again = 1_000_000 // seeds that nobody else has
	row, err := c.measure(ctx, p, seed)
	busy := c.Busy && p.Truth.Apart == 0
	for n := uint64(1); err == nil && busy && !row.Right() && n <= 2; n++ {
		row, err = c.measure(ctx, p, seed+n*again)
	}
	row.LeftOut = busy && row.disturbed()
	return row, err
}

// measure measures one system. The error is not the system's.
func (c *Config) measure(ctx context.Context, p Planted, seed uint64) (Row, error) {
	dir := filepath.Join(c.Dir, p.Name)
	if c.Seeds > 1 {
		dir += fmt.Sprintf("-%d", seed)
	}
	made, stop, err := p.planted(ctx, seed)
	if err != nil {
		return Row{}, fmt.Errorf("plant %s: %w", p.Name, err)
	}
	defer stop()
	path, err := p.write(dir, seed, made)
	if err != nil {
		return Row{}, fmt.Errorf("plant %s: %w", p.Name, err)
	}
	began := time.Now()
	measure := c.Measure
	if p.Unlimited {
		measure = c.Unlimited
	}
	res, at, err := measure(ctx, path, dir)
	if ctx.Err() != nil {
		return Row{}, fmt.Errorf("measure %s: %w", p.Name, context.Cause(ctx))
	}
	row := rowOf(p, made.truth(p.Truth), res, err)
	row.Seed, row.Run, row.Seconds = seed, at, time.Since(began).Seconds()
	return row, nil
}

// planted is the system that the seed gives. What it calls that is no service of it answers
// until stop is called, in this process.
func (p Planted) planted(ctx context.Context, seed uint64) (made project, stop func(), err error) {
	made = p.build(newDraw(seed, p.Name))
	if made.outside == nil {
		return made, func() {}, nil
	}
	s, err := plant.Listen(ctx, *made.outside)
	if err != nil {
		return made, nil, err
	}
	made.call(s.Addr())
	return made, s.Start(ctx), nil
}

// write writes the files of the system that the seed gives into dir, and returns
// the path of the experiment.
func (p Planted) write(dir string, seed uint64, made project) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	compose, err := made.compose(p)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "experiment.yaml")
	return path, errors.Join(
		archive.WriteFile(filepath.Join(dir, "compose.yaml"), compose),
		archive.WriteFile(path, made.experiment(p, seed)),
	)
}

// Conducted returns a Config.Measure that conducts experiments as c says, whose
// experiment, variants and directories are replaced.
func Conducted(c runner.Config) func(ctx context.Context, path, dir string) (*result.Result, string, error) {
	return func(ctx context.Context, path, dir string) (*result.Result, string, error) {
		exp, err := experiment.Load(path)
		if err != nil {
			return nil, "", err
		}
		c := c
		c.Experiment, c.Variants = exp, exp.VariantNames()
		c.RunsDir, c.VolumesDir = filepath.Join(dir, "runs"), filepath.Join(dir, "volumes")
		at, err := runner.Run(ctx, c)
		if err != nil {
			return nil, at, err
		}
		r, err := archive.Open(at)
		if err != nil {
			return nil, at, err
		}
		res, err := analysis.Derive(r)
		return res, at, err
	}
}
