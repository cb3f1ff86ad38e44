package train

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"loadstone/block/random"
	"loadstone/block/servertest"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/analysis/corpus"
)

const modelFile = "../model.bin"

// The model that is committed is what is learned from the messages that are committed; if it
// is to be another one, write it again:
//
//	go test ./system/chat/analysis/train -update && go test ./system/chat/analysis -update
var update = flag.Bool("update", false, "write the model again")

func training() (all []corpus.Message) {
	for _, l := range corpus.Languages {
		all = append(all, corpus.Training(l)...)
	}
	return all
}

func TestTheModelIsWhatIsLearned(t *testing.T) {
	t.Parallel()
	want := Learn(DefaultConfig(), training())
	if *update {
		if err := os.WriteFile(modelFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(modelFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("model.bin is not what is learned: run this test with -update")
	}
	if less := Learn(DefaultConfig(), training()[1:]); bytes.Equal(less, want) {
		t.Error("a message less makes no difference")
	}
}

// confusion counts messages by label and by what they are taken for.
type confusion [analysis.Labels][analysis.Labels]int

func confuse(m *analysis.Model, messages []corpus.Message) (c confusion) {
	for _, x := range messages {
		c[x.Label][m.Classify(x.Text)]++
	}
	return c
}

// percent is how many of a hundred are taken for what they are, rounded down.
func (c *confusion) percent() int {
	right, all := 0, 0
	for l, row := range c {
		right += row[l]
		for _, n := range row {
			all += n
		}
	}
	return 100 * right / all
}

func (c *confusion) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s", "")
	for l := range analysis.Label(analysis.Labels) {
		fmt.Fprintf(&b, "%10s", l)
	}
	for l, row := range c {
		fmt.Fprintf(&b, "\n%-10s", analysis.Label(l))
		for _, n := range row {
			fmt.Fprintf(&b, "%10d", n)
		}
	}
	return b.String()
}

// percentWanted is of the messages that nothing was learned from.
const percentWanted = 85

func TestHeldOutMessages(t *testing.T) {
	t.Parallel()
	m, err := analysis.Load(Learn(DefaultConfig(), training()))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range corpus.Languages {
		c := confuse(m, corpus.Test(l))
		t.Logf("%s: %d %% of %d; rows are what messages are, columns what they are taken for\n%s", l, c.percent(), len(corpus.Test(l)), c.String())
		if c.percent() < percentWanted {
			t.Errorf("%s: %d %%, want %d", l, c.percent(), percentWanted)
		}
	}
	// A model that knows nothing takes all for the first label.
	nothing := confuse(&analysis.Model{}, corpus.Test("en"))
	if got := nothing.percent(); got != 100/analysis.Labels {
		t.Errorf("a model without weights: got %d %%", got)
	}
}

// No message is learned from and tested with, and none has two labels.
func TestMessagesAreApart(t *testing.T) {
	t.Parallel()
	labels := map[string]analysis.Label{}
	for _, m := range training() {
		key := string(analysis.Normalise(nil, m.Text))
		if have, ok := labels[key]; ok && have != m.Label {
			t.Errorf("%q is both %s and %s", m.Text, have, m.Label)
		}
		labels[key] = m.Label
	}
	for _, l := range corpus.Languages {
		test := corpus.Test(l)
		for _, m := range test {
			if _, ok := labels[string(analysis.Normalise(nil, m.Text))]; ok {
				t.Errorf("%q is in both parts", m.Text)
			}
		}
		for label := range analysis.Label(analysis.Labels) {
			count := func(all []corpus.Message) int {
				return len(slices.DeleteFunc(slices.Clone(all), func(m corpus.Message) bool { return m.Label != label }))
			}
			if few := count(corpus.Training(l)); few < 200 {
				t.Errorf("%d messages of %s in %s to learn from", few, label, l)
			}
			if few := count(test); few != 40 {
				t.Errorf("%d messages of %s in %s to test with", few, label, l)
			}
		}
	}
}

// What is learned from four fifths of the training messages, tested with the rest of them.
func TestTheChoice(t *testing.T) {
	servertest.Large(t)
	const parts = 5
	all := training()
	draw := random.New(7, 1)
	part := make([]int, len(all))
	for i := range part {
		part[i] = draw.Below(parts)
	}
	pick := func(in func(int) bool) (some []corpus.Message) {
		for i, m := range all {
			if in(part[i]) {
				some = append(some, m)
			}
		}
		return some
	}
	for _, c := range []Config{{6, 0}, {12, 0}, {30, 0}, {12, 4}, DefaultConfig(), {60, 4}, {30, 16}, {60, 64}} {
		var sum confusion
		for p := range parts {
			m, err := analysis.Load(Learn(c, pick(func(of int) bool { return of != p })))
			if err != nil {
				t.Fatal(err)
			}
			one := confuse(m, pick(func(of int) bool { return of == p }))
			for l := range sum {
				for as := range sum[l] {
					sum[l][as] += one[l][as]
				}
			}
		}
		t.Logf("%+v: %d %%\n%s", c, sum.percent(), sum.String())
	}
}
