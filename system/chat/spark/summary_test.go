package spark

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/contracttest"
)

// summarise has the Python code say which texts stand for all, of each room.
func summarise(t *testing.T, rooms [][]string) (all [][]int) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		servertest.Missing(t, "there is no Python: apt-get install python3")
	}
	var in, failed bytes.Buffer
	lines := json.NewEncoder(&in)
	for _, texts := range rooms {
		if texts == nil {
			texts = []string{}
		}
		if err := lines.Encode(texts); err != nil {
			t.Fatal(err)
		}
	}
	// -B: it leaves nothing beside its source.
	cmd := exec.CommandContext(t.Context(), python, "-B", "summary.py", "../analysis/fold.tsv")
	cmd.Stdin, cmd.Stderr = &in, &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	for line := range bytes.Lines(out) {
		var found []int
		if err := json.Unmarshal(line, &found); err != nil {
			t.Fatal(err)
		}
		all = append(all, found)
	}
	if len(all) != len(rooms) {
		t.Fatalf("it answered %d of %d rooms", len(all), len(rooms))
	}
	return all
}

func TestGoldenRooms(t *testing.T) {
	t.Parallel()
	type record struct {
		Name  string   `json:"name"`
		Texts []string `json:"texts"`
		Lines []int    `json:"lines"`
	}
	all := contracttest.Records[record](t, "../contract/summaries.jsonl")
	var rooms [][]string
	for _, r := range all {
		rooms = append(rooms, r.Texts)
	}
	for i, got := range summarise(t, rooms) {
		if !slices.Equal(got, all[i].Lines) {
			t.Errorf("%s: Python takes %v, want %v", all[i].Name, got, all[i].Lines)
		}
	}
}

func TestRandomRoomsHaveTheSameSummaries(t *testing.T) {
	t.Parallel()
	const seed, count = 17, 200
	r := rand.New(rand.NewPCG(seed, seed))
	words := strings.Fields("so good lol what is this song called 하하하 ㅋㅋㅋ 진짜 이거 뭐예요 노래 좋아요 \u110b\u1161\u11ab\u1102\u1167\u11bc best worst ever turn it down !!!! Café ＬＯＬ 👍🏽 MOCKBA")
	var rooms [][]string
	taken := 0
	for range count {
		texts := make([]string, r.IntN(220))
		for i := range texts {
			var some []string
			for range r.IntN(8) {
				some = append(some, words[r.IntN(len(words))])
			}
			texts[i] = strings.Join(some, []string{" ", "", "  "}[r.IntN(3)])
		}
		rooms = append(rooms, texts)
	}
	for i, got := range summarise(t, rooms) {
		want := analysis.Summarise(rooms[i])
		taken += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("room %d of seed %d: Python takes %v, Go %v", i, seed, got, want)
		}
	}
	if taken < count {
		t.Errorf("of %d rooms %d messages were taken: they are not what is to be compared", count, taken)
	}
}
