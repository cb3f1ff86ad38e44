package spark

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/analysis/analyst"
	"loadstone/system/chat/topics"
	"loadstone/system/chat/topics/topicstest"
)

// What is asked for is answered as Go would, and what is no request is put aside and stops nothing, also over a kill.
func TestTheJobAnswersRequests(t *testing.T) {
	servertest.Large(t)
	submit := servertest.Fetched(t, "Spark", "spark-*/bin/spark-submit")
	broker := servertest.Kafka(t)
	c := topics.DefaultConfig()
	c.Brokers = []string{broker.Addr}
	client, err := topics.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	dir, host := t.TempDir(), servertest.Host()
	job := servertest.New(t, servertest.Program{
		Command: []string{
			submit, "--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=" + host, "--conf", "spark.driver.bindAddress=" + host,
			"--py-files", "summary.py", "job.py", "--kafka", broker.Addr, "--folds", "../analysis/fold.tsv", "--checkpoints", filepath.Join(dir, "checkpoints"),
		},
		Env: append(os.Environ(), "SPARK_LOCAL_DIRS="+dir, "SPARK_LOCAL_IP="+host, "TMPDIR="+dir, "JDK_JAVA_OPTIONS=-Djava.io.tmpdir="+dir, "PYTHONDONTWRITEBYTECODE=1"),
		Log: filepath.Join(dir, "log"),
	})
	texts := slices.Repeat([]string{"the soup is boiling over!", "so good", "\"안녕\" \\ <b>", "soup is boiling over, turn it down", "👍🏽 하하하"}, 20)
	ask := func(stream int64) {
		t.Helper()
		var messages []chat.Encoded
		for i, text := range texts {
			m := chat.Message{Offset: uint64(100 + i), At: 1, Sender: "guest-1", Name: "누어", ID: fmt.Sprint(i), Text: text}
			messages = append(messages, chat.Encoded{Offset: m.Offset, Bytes: m.Append(nil)})
		}
		if err := client.Request(t.Context(), stream, messages); err != nil {
			t.Fatal(err)
		}
	}
	wrong := []string{
		"", "no request", "[]", `{"stream":1}`, `{"stream":1,"messages":[]}`, `{"stream":true,"messages":[{"offset":0,"name":"a","text":"b"}]}`, `{"stream":1,"messages":[{"offset":0,"name":"a"}]}`,
		`{"stream":1,"messages":[{"offset":0,"name":"\ud800","text":"so long that it is taken"}]}`, "\xff", strings.Repeat("[", 50_000), `{"stream":1,"messages":[` + strings.Repeat(`{"offset":0,"name":"a","text":"b"},`, 200) + `{"offset":0,"name":"a","text":"b"}]}`,
	}
	for _, w := range wrong {
		topicstest.Write(t, broker.Addr, topics.Requests, []byte(w))
	}
	ask(1)
	job.Start()
	check := func(count int) {
		t.Helper()
		want := analysis.Summarise(texts)
		for _, r := range topicstest.Read(t, broker.Addr, topics.Summaries, count) {
			var got analyst.Summary
			stream, err := topics.ParseResult(topics.Summaries, r.Value)
			if err != nil || json.Unmarshal(r.Value, &got) != nil || stream > 2 || got.From != 100 || got.Next != 200 || len(got.Lines) != len(want) {
				t.Fatalf("got %s, %v", r.Value, err)
			}
			for i, l := range got.Lines {
				if l.Offset != uint64(100+want[i]) || l.Name != "누어" || l.Text != texts[want[i]] {
					t.Errorf("line %d is %+v", i, l)
				}
			}
		}
	}
	check(1)
	dead := topicstest.Read(t, broker.Addr, topics.DeadRequests, len(wrong))
	for _, d := range dead {
		if !slices.Contains(wrong, string(d.Value)) || d.Headers["reason"] == "" || !strings.HasPrefix(d.Headers["place"], topics.Requests+" ") {
			t.Errorf("what is put aside is %.40q %v", d.Value, d.Headers)
		}
	}
	job.Kill()
	ask(2)
	job.Start()
	check(2)
}
