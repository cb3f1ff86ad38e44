package flink

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/system/chat/analysis"
)

// judged is what the Java code makes of a text.
type judged struct {
	Sums  [analysis.Labels]int32
	Label int32
}

// judge has the Java code judge texts, and calls see with what it makes of each.
func judge(t *testing.T, count int, text func(i int) string, see func(i int, got judged, normal string)) {
	t.Helper()
	javac, err := exec.LookPath("javac")
	if err != nil {
		servertest.Missing(t, "there is no Java compiler: apt-get install openjdk-17-jdk-headless")
	}
	classes := t.TempDir()
	src := filepath.Join("src", "loadstone", "chat")
	compile := exec.CommandContext(t.Context(), javac, "--release", "17", "-J-Xmx128m", "-d", classes, filepath.Join(src, "Labels.java"), filepath.Join(src, "LabelsCheck.java"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	java := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(javac), "java"), "-Xmx64m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", classes,
		"loadstone.chat.LabelsCheck", "../analysis/model.bin", "../analysis/fold.tsv")
	var failed bytes.Buffer
	java.Stderr = &failed
	in, errIn := java.StdinPipe()
	out, errOut := java.StdoutPipe()
	if err := errors.Join(errIn, errOut, java.Start()); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(in, 1<<16)
		for i := range count {
			s := text(i)
			_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) // its error stays until Flush
			_, _ = w.WriteString(s)
		}
		written <- errors.Join(w.Flush(), in.Close())
	}()
	r := bufio.NewReaderSize(out, 1<<16)
	for i := range count {
		var got judged
		var length uint32
		err := errors.Join(binary.Read(r, binary.BigEndian, &got), binary.Read(r, binary.BigEndian, &length))
		normal := make([]byte, length)
		if err == nil {
			_, err = io.ReadFull(r, normal)
		}
		if err != nil {
			t.Fatalf("text %d: %v\n%s", i, err, &failed)
		}
		see(i, got, string(normal))
	}
	if err := errors.Join(<-written, java.Wait()); err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
}

func TestGoldenLabels(t *testing.T) {
	t.Parallel()
	type record struct {
		Text   string                 `json:"text"`
		Normal string                 `json:"normal"`
		Sums   [analysis.Labels]int32 `json:"sums"`
		Label  string                 `json:"label"`
	}
	data, err := os.ReadFile("../contract/labels.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	for line := range strings.Lines(string(data)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("there are no golden records")
	}
	judge(t, len(all), func(i int) string { return all[i].Text }, func(i int, got judged, normal string) {
		if label := analysis.Label(got.Label).String(); got.Sums != all[i].Sums || label != all[i].Label || normal != all[i].Normal {
			t.Errorf("%q: Java has %v, %s, %q, want %v, %s, %q", all[i].Text, got.Sums, label, normal, all[i].Sums, all[i].Label, all[i].Normal)
		}
	})
}

// What is random is also no UTF-8, halves of surrogates among it, and made of what the folding and the syllables know; some
// of it is empty, and some longer than any message.
func TestRandomTextsHaveTheSameLabels(t *testing.T) {
	t.Parallel()
	count := 50_000
	if os.Getenv("LARGE") == "1" {
		count = 1_000_000
	}
	const seed = 17
	own := randomTexts(seed)
	counts := [analysis.Labels]int{}
	theirs := randomTexts(seed)
	judge(t, count, func(int) string { return theirs() }, func(_ int, got judged, normal string) {
		text := own()
		label := analysis.Classify(text)
		counts[label]++
		if got.Label != int32(label) || got.Sums != analysis.Sums(text) || normal != string(analysis.Normalise(nil, text)) {
			t.Errorf("%q: Java has %v, label %d, %q; Go %v, %d, %q", text, got.Sums, got.Label, normal, analysis.Sums(text), label, string(analysis.Normalise(nil, text)))
		}
	})
	for l, n := range counts {
		if n == 0 {
			t.Errorf("no text is %s", analysis.Label(l))
		}
	}
	t.Logf("%d texts, seed %d: %v", count, seed, counts)
}

// randomTexts returns a source of texts that is the same for a seed.
func randomTexts(seed uint64) func() string {
	r := rand.New(rand.NewPCG(seed, seed))
	words := strings.Fields("so good lol what is this why 하하 ㅋㅋㅋ 진짜 이거 뭐예요 좋아요 best worst you should turn down it 못하네 노래 ! ? !!! ... 👍🏽 👩‍👩‍👧 שלום ПРИВЕТ")
	blocks := [][2]int{{0x20, 0x7e}, {0xa0, 0x24f}, {0x300, 0x36f}, {0x370, 0x52f}, {0x590, 0x6ff}, {0x1100, 0x11ff}, {0x3130, 0x318f}, {0xac00, 0xd7a3}, {0xff00, 0xffef}, {0x1f300, 0x1f6ff}, {0x200b, 0x2070}, {0, 0x10ffff}}
	return func() string {
		var b strings.Builder
		pieces := r.IntN(30)
		if r.IntN(200) == 0 {
			pieces *= 40
		}
		for range pieces {
			switch k := r.IntN(10); {
			case k < 4:
				b.WriteString(words[r.IntN(len(words))])
				b.WriteByte(' ')
			case k < 9:
				block := blocks[r.IntN(len(blocks))]
				c := rune(block[0] + r.IntN(block[1]-block[0]+1))
				for range 1 + r.IntN(1+r.IntN(6)) {
					b.WriteRune(c)
				}
			case r.IntN(4) == 0:
				b.Write([]byte{0xed, byte(0xa0 + r.IntN(0x20)), byte(0x80 + r.IntN(0x40))}) // what UTF-16 has, and UTF-8 has not
			default:
				b.WriteByte(byte(r.IntN(256)))
			}
		}
		return b.String()
	}
}
