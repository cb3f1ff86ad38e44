package flink

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/topics"
)

// BenchmarkSlots is what more slots are worth in a hot room: all messages are in one stream, and each costs 22.5 ms beside
// its label, as a model elsewhere would. The messages are there before the job starts, in one process with all slots;
// the rate is from the first totals to the last. It needs LARGE=1.
func BenchmarkSlots(b *testing.B) {
	servertest.Large(b)
	classes, run := compiled(b)
	for _, first := range []string{"keyed", "classified"} {
		for _, slots := range []int{4, 8} {
			b.Run(fmt.Sprintf("%s-first/slots=%d", first, slots), func(b *testing.B) {
				var rate float64
				for range b.N {
					rate += slotsRate(b, classes, run, slots, first == "keyed")
				}
				b.ReportMetric(rate/float64(b.N), "messages/s")
				b.ReportMetric(0, "ns/op") // it starts and ends processes
			})
		}
	}
}

func slotsRate(b *testing.B, classes, run string, slots int, original bool) float64 {
	b.Helper()
	const count = 1500
	broker := servertest.Kafka(b)
	c := topics.DefaultConfig()
	c.Brokers = []string{broker.Addr}
	client, err := topics.Open(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var accepted sync.WaitGroup
	for i := range count {
		m := chat.Raw{Stream: 1, Message: chat.Message{At: 1_800_000_000_000, Sender: fmt.Sprint("guest-", i%500), Name: "Noor", ID: strconv.Itoa(i), Text: "what is this song called?"}}
		accepted.Add(1)
		for client.Say(&m, func(err error) {
			if err != nil {
				b.Error(err)
			}
			accepted.Done()
		}) != nil {
			time.Sleep(time.Millisecond) // enough are under way
		}
	}
	accepted.Wait()

	dir := b.TempDir()
	flags := []string{run, "loadstone.chat.Analysis", "--kafka", broker.Addr, "--parallelism", strconv.Itoa(slots), "--weight-micros", "22500", "--weight", "wait"}
	if original {
		flags = append(flags, "--original")
	}
	ctx, cancel := context.WithTimeout(b.Context(), long)
	defer cancel()
	var began, ended time.Time
	var first, last uint64
	var wrong error
	job := servertest.New(b, servertest.Program{
		Command: flags, Env: append(os.Environ(), "FLINK_EXTRA_CLASSPATH="+classes, "JVM_ARGS=-Xmx512m -Djava.io.tmpdir="+dir),
		Dir: dir, Log: filepath.Join(dir, "log"),
	})
	job.Start()
	if err := client.Results(ctx, func(_ string, value []byte) {
		var t totals
		if wrong = json.Unmarshal(value, &t); wrong != nil {
			cancel()
			return
		}
		if began.IsZero() {
			began, first = time.Now(), t.Next
		}
		if ended, last = time.Now(), t.Next; last == count {
			cancel()
		}
	}, func(error) {}); err != nil || wrong != nil {
		b.Fatal(err, wrong)
	}
	job.Stop()
	if last != count {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		b.Fatalf("%d of %d messages were counted\n%.3000s", last, count, log)
	}
	return float64(last-first) / ended.Sub(began).Seconds()
}
