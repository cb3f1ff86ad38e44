// Package junit writes what came of a load or a run as JUnit XML, which CI systems show
// test by test: a threshold or a check that was not met is a failed test.
//
// There is no standard; the elements are those that GitLab, Jenkins and GitHub's actions
// read (testsuites, testsuite, testcase, failure, skipped, system-out).
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Suite is a group of cases: a load, or a variant of a run.
type Suite struct {
	Name  string
	Began time.Time
	Took  time.Duration
	Cases []Case
	// Output is a text to read beside the cases.
	Output string
}

// Case is one claim.
type Case struct {
	Name string
	// Failure says in one line why the claim does not hold; empty if it does.
	Failure string
	// Skipped says why nobody knows; empty if it is known.
	Skipped string
}

type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []suite  `xml:"testsuite"`
}

type suite struct {
	Name      string     `xml:"name,attr"`
	Tests     int        `xml:"tests,attr"`
	Failures  int        `xml:"failures,attr"`
	Errors    int        `xml:"errors,attr"`
	Skipped   int        `xml:"skipped,attr"`
	Time      string     `xml:"time,attr"`
	Timestamp string     `xml:"timestamp,attr,omitempty"`
	Cases     []testcase `xml:"testcase"`
	Output    string     `xml:"system-out,omitempty"`
}

type testcase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Time    string   `xml:"time,attr"`
	Failure *message `xml:"failure"`
	Skipped *message `xml:"skipped"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Write writes suites as one file. It fails only if w does.
func Write(w io.Writer, name string, all []Suite) error {
	doc := suites{Name: legal(name)}
	var took time.Duration
	for i := range all {
		s := all[i].element()
		doc.Tests, doc.Failures, doc.Skipped = doc.Tests+s.Tests, doc.Failures+s.Failures, doc.Skipped+s.Skipped
		doc.Suites = append(doc.Suites, s)
		took += all[i].Took
	}
	doc.Time = seconds(took)
	out, err := xml.MarshalIndent(doc, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(out)+"\n")
	}
	if err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	return nil
}

func (s *Suite) element() suite {
	out := suite{Name: legal(s.Name), Tests: len(s.Cases), Time: seconds(s.Took), Output: legal(s.Output)}
	if !s.Began.IsZero() {
		out.Timestamp = s.Began.UTC().Format("2006-01-02T15:04:05")
	}
	for _, c := range s.Cases {
		t := testcase{Class: out.Name, Name: legal(c.Name), Time: "0"}
		switch {
		case c.Skipped != "":
			t.Skipped = &message{Message: legal(c.Skipped)}
			out.Skipped++
		case c.Failure != "":
			t.Failure = &message{Message: legal(c.Failure), Text: legal(c.Failure)}
			out.Failures++
		}
		out.Cases = append(out.Cases, t)
	}
	return out
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// legal is a text without the characters that XML 1.0 has not.
func legal(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, text)
}
