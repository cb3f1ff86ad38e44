package junit

import (
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := Write(&b, "load <1>", []Suite{
		{Name: "a", Began: time.Date(2025, 8, 14, 8, 0, 0, 0, time.UTC), Took: 1500 * time.Millisecond, Output: "text\x00 & more", Cases: []Case{
			{Name: "p(95)<200"}, {Name: "rate<0.01", Failure: "it was \"3 %\"\x1b"}, {Name: "watched", Skipped: "not run"},
		}},
		{Name: "b", Cases: []Case{{Name: "one"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="load &lt;1&gt;" tests="4" failures="1" skipped="1" time="1.500">
  <testsuite name="a" tests="3" failures="1" errors="0" skipped="1" time="1.500" timestamp="2025-08-14T08:00:00">
    <testcase classname="a" name="p(95)&lt;200" time="0"></testcase>
    <testcase classname="a" name="rate&lt;0.01" time="0">
      <failure message="it was &#34;3 %&#34; ">it was &#34;3 %&#34; </failure>
    </testcase>
    <testcase classname="a" name="watched" time="0">
      <skipped message="not run"></skipped>
    </testcase>
    <system-out>text  &amp; more</system-out>
  </testsuite>
  <testsuite name="b" tests="1" failures="0" errors="0" skipped="0" time="0.000">
    <testcase classname="b" name="one" time="0"></testcase>
  </testsuite>
</testsuites>
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if err := Write(broken{}, "x", nil); err == nil {
		t.Error("a broken pipe is no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func FuzzWrite(f *testing.F) {
	f.Add("a\x00\xff<&\ufffe")
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		if err := Write(&b, text, []Suite{{Name: text, Output: text, Cases: []Case{{Name: text, Failure: text}}}}); err != nil {
			t.Fatal(err)
		}
		var back struct{}
		if err := xml.Unmarshal([]byte(b.String()), &back); err != nil {
			t.Errorf("%q cannot be read again: %v", b.String(), err)
		}
	})
}
