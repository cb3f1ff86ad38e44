package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"loadstone/lab/result"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func TestTextIsAsAgreed(t *testing.T) {
	t.Parallel()
	for name, c := range textCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			if err := Text(&got, c.result, c.options); err != nil {
				t.Fatalf("Text: %v", err)
			}
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("no golden file, run the test with -update: %v", err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("differs from %s; if that is right, run the test with -update\ngot:\n%s\nwant:\n%s", path, got.Bytes(), want)
			}
		})
	}
}

type textCase struct {
	result  *result.Result
	options Options
}

func textCases() map[string]textCase {
	wide := Options{Width: 100}
	return map[string]textCase{
		"normal":       {sampleResult(), wide},
		"normal-80":    {sampleResult(), Options{Width: 80}},
		"narrow":       {sampleResult(), Options{Width: 40}},
		"colour":       {sampleResult(), Options{Width: 100, Color: true}},
		"lower-bound":  {lowerBoundResult(), wide},
		"undecided":    {undecidedResult(), wide},
		"single-trial": {singleTrialResult(), wide},
		"load":         {loadResult(), wide},
		"journeys":     {journeysResult(), wide},
		"journeys-40":  {journeysResult(), Options{Width: 40}},
		"faults":       {faultsResult(), wide},
		"faults-40":    {faultsResult(), Options{Width: 40}},
		"watched":      {watchedResult(), wide},
		"long-names":   {longNamesResult(), wide},
		"twelve":       {twelveResult(), wide},
		"empty":        {&result.Result{Schema: result.Schema}, wide},
		"no-capacity":  {noCapacityResult(), wide},
		"two-trials":   {twoTrialsResult(), wide},
	}
}
