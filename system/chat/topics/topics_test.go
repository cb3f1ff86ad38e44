package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/topics/topicstest"
)

const long = 5 * time.Minute // more than anything takes that does not hang, a broker that starts beside other work among it

func open(t *testing.T, broker string) *Client {
	t.Helper()
	c := DefaultConfig()
	c.Brokers, c.Timeout = []string{broker}, long
	client, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// count is the value of a counter, of all its labels together.
func count(t *testing.T, of prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := of.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// say says something and waits until it is accepted.
func say(t *testing.T, c *Client, sender, id string) {
	t.Helper()
	done := make(chan error, 1)
	m := chat.Raw{Stream: 1, Message: chat.Message{At: 1_800_000_000_123, Sender: sender, Name: "Noor", ID: id, Text: "안녕"}}
	if err := c.Say(&m, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(long):
		t.Fatal("it was not answered")
	}
}

// read reads as a group until all that is wanted has come, and returns all that came.
func read(t *testing.T, c *Client, group string, fails int, want func(came []string) bool) (came []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var mu sync.Mutex
	reader := Reader{Group: group, Most: 100, Linger: 10 * time.Millisecond, Failed: func(error) {}, Take: func(ctx context.Context, batch []Record) error {
		mu.Lock()
		defer mu.Unlock()
		if fails--; fails >= 0 {
			return errors.New("not now")
		}
		for i := range batch {
			r := &batch[i]
			if r.Err == nil {
				came = append(came, r.Message.Sender+"/"+r.Message.ID)
				continue
			}
			came = append(came, "malformed")
			if err := c.PutAside(ctx, r); err != nil {
				return err
			}
		}
		if want(came) {
			cancel()
		}
		return nil
	}}
	if err := c.Read(ctx, reader); err != nil {
		t.Fatal(err)
	}
	if !want(came) {
		t.Fatalf("only %v came", came)
	}
	return came
}

func TestTopics(t *testing.T) {
	t.Parallel()
	broker := servertest.Kafka(t)
	c, written := open(t, broker.Addr), prometheus.NewRegistry()
	counted := DefaultConfig()
	counted.Brokers, counted.Timeout, counted.Registerer = []string{broker.Addr}, long, written
	sender, err := Open(t.Context(), counted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	for i := range 20 {
		say(t, sender, "noor", fmt.Sprint(i))
	}
	// Each was accepted before the next one was said, so each had a request of its own, or several where one failed. Records
	// are counted behind the answer to who said them.
	for deadline := time.Now().Add(long); count(t, written, "chat_kafka_produced_records_total") < 20 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if requests, records := count(t, written, "chat_kafka_produce_requests_total"), count(t, written, "chat_kafka_produced_records_total"); requests < 20 || records != 20 {
		t.Errorf("20 messages, one after the other, were %v requests with %v records", requests, records)
	}
	topicstest.Write(t, broker.Addr, Raw, []byte(`{"stream":0}`))
	say(t, c, "olga", "a")
	all := func(came []string) bool {
		return slices.Contains(came, "noor/19") && slices.Contains(came, "olga/a") && slices.Contains(came, "malformed")
	}
	came := read(t, c, "one", 3, all)
	noors := slices.DeleteFunc(came, func(m string) bool { return m == "malformed" || m == "olga/a" })
	for i, m := range noors {
		if m != fmt.Sprint("noor/", i) {
			t.Fatalf("what one said came as %v", noors)
		}
	}
	dead := topicstest.Read(t, broker.Addr, Dead, 1)[0]
	if string(dead.Value) != `{"stream":0}` || dead.Headers["reason"] == "" || dead.Headers["place"] == "" {
		t.Errorf("what is put aside is %s %v", dead.Value, dead.Headers)
	}
	// Another group has all again, and the first one only what is new, in spite of a broker that was killed.
	read(t, c, "two", 0, all)
	broker.Kill()
	done := make(chan error, 1)
	m := chat.Raw{Stream: 1, Message: chat.Message{At: 1_800_000_000_123, Sender: "samir", Name: "Samir", ID: "a", Text: "anybody?"}}
	if err := c.Say(&m, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	broker.Start()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	case <-time.After(long):
		t.Fatal("what was said while the broker was away was not answered")
	}
	say(t, c, "ada", "a")
	again := read(t, c, "one", 0, func(came []string) bool { return slices.Contains(came, "ada/a") })
	if slices.Contains(again, "noor/0") {
		t.Errorf("what was committed came again: %v", again)
	}
}

// Who goes back reads again what came since, as soon as that can be found out, and never
// leaves out what it has not read yet.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	broker := servertest.Kafka(t)
	c := open(t, broker.Addr)
	const said = 6
	before := time.Now()
	for i := range said {
		say(t, c, "noor", fmt.Sprint(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	back, came := make(chan time.Time, 1), []string{}
	reader := Reader{Group: "one", Most: 1, Linger: 10 * time.Millisecond, Back: back}
	killed := false
	reader.Failed = func(err error) {
		if killed && strings.Contains(err.Error(), "go back") { // it may be so again while the broker starts
			killed = false
			broker.Start()
		}
	}
	again := map[string]bool{}
	reader.Take = func(_ context.Context, batch []Record) error {
		came = append(came, batch[0].Message.ID)
		switch {
		case len(came) == 1:
			back <- time.Now() // of which there is nothing yet
		case len(came) == said:
			killed = true
			broker.Kill() // where to go cannot be found out for a while
			back <- before
		case len(came) > said:
			if again[batch[0].Message.ID] = true; len(again) == said {
				cancel()
			}
		}
		return nil
	}
	if err := c.Read(ctx, reader); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0", "1", "2", "3", "4", "5"}; len(came) < said || !slices.Equal(came[:said], want) || len(again) != said {
		t.Errorf("%v came, want %v, and then all of them again", came, want)
	}
}

// That nothing comes is no sign that all is well again: Kafka has to answer.
func TestRecovered(t *testing.T) {
	t.Parallel()
	broker := servertest.Kafka(t)
	c := open(t, broker.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	recovered, ended := make(chan struct{}, 99), make(chan error, 1)
	go func() {
		ended <- c.Read(ctx, Reader{Group: "one", Most: 1, Linger: 10 * time.Millisecond, Failed: func(error) {}, Take: func(context.Context, []Record) error { return nil }, Recovered: func() {
			select {
			case recovered <- struct{}{}:
			default:
			}
		}})
	}()
	wait := func() {
		t.Helper()
		select {
		case <-recovered:
		case <-time.After(long):
			t.Fatal("it was not told that all is well")
		}
	}
	wait()
	broker.Kill()
	for len(recovered) > 0 {
		<-recovered
	}
	time.Sleep(3 * time.Second)     // more than two polls
	if n := len(recovered); n > 1 { // one may have been on its way
		t.Errorf("all is well, as was said %d times without a broker", n)
	}
	broker.Start()
	wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestResultsAreHeardByAll(t *testing.T) {
	t.Parallel()
	broker := servertest.Kafka(t)
	c := open(t, broker.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 99), make(chan error, 2)
	for range 2 {
		go func() {
			ended <- c.Results(ctx, func(_ string, value []byte) {
				select {
				case heard <- string(value):
				default:
				}
			}, func(error) {})
		}()
	}
	defer func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	}()
	// They hear from when they have asked where the end is: so something is said until both have.
	for deadline := time.Now().Add(long); len(heard) < 4; {
		if time.Now().After(deadline) {
			t.Fatal("nothing was heard")
		}
		topicstest.Write(t, broker.Addr, Analysis, []byte("found"))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	if c.Validate() == nil {
		t.Error("no brokers are enough")
	}
	c.Brokers = []string{"a:1"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"partitions": func(c *Config) { c.Partitions = 0 }, "linger": func(c *Config) { c.Linger = -1 }, "buffered": func(c *Config) { c.Buffered = 0 }, "timeout": func(c *Config) { c.Timeout = 0 },
	} {
		wrong := c
		change(&wrong)
		if wrong.Validate() == nil {
			t.Errorf("%s: %+v is enough", name, wrong)
		}
	}
}
