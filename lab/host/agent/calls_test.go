package agent

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/host"
)

// callable are the calls of an agent without a wire and a keeper.
func callable(t *testing.T, targets func() []host.Target) *calls {
	t.Helper()
	return &calls{&agent{began: time.Now(), gone: t.Context(), local: host.NewLocal(targets)}}
}

func none() []host.Target { return nil }

func TestSamplesAreNotTakenTooOften(t *testing.T) {
	r := start(t)
	for _, every := range []time.Duration{0, -time.Second, time.Microsecond} {
		if err := r.Watch(t.Context(), every, func(*host.Sample) error { return nil }); err == nil || !strings.Contains(err.Error(), "samples cannot be taken every") {
			t.Errorf("every %v: got %v", every, err)
		}
	}
	if _, err := r.Find(t.Context(), nil); err != nil {
		t.Errorf("it does not go on: %v", err)
	}
}

// Who asked for a sample of a watch that is over hears that, and the watch after it goes on.
func TestAWatchThatIsOverEndsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := callable(t, none)
		var s host.Sample
		for range 100 {
			if err := errors.Join(c.Watch(time.Second, nil), c.Next(struct{}{}, &s)); err != nil {
				t.Fatal(err)
			}
			waits := make(chan error, 1)
			go func() { waits <- c.Next(struct{}{}, &host.Sample{}) }()
			synctest.Wait()
			if err := errors.Join(c.Stop(struct{}{}, nil), c.Watch(time.Second, nil)); err != nil {
				t.Fatal(err)
			}
			if err := <-waits; err == nil {
				t.Error("it has a sample of a watch that is over")
			}
			for range 2 {
				if err := c.Next(struct{}{}, &s); err != nil {
					t.Fatalf("the watch after it: %v", err)
				}
			}
		}
		if err := c.Stop(struct{}{}, nil); err != nil {
			t.Error(err)
		}
	})
}

// A lab that has given up asking, as where its disk is full, may ask anew.
func TestAWatchMayFollowOneThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := callable(t, none)
		for range 2 {
			if err := c.Watch(time.Second, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * mostWaiting * time.Second)
		}
		if err := c.Stop(struct{}{}, nil); err == nil || !strings.Contains(err.Error(), "nobody has asked for 200 samples") {
			t.Errorf("who stops it is not told: got %v", err)
		}
	})
}

func TestOneWatchAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		c := callable(t, func() []host.Target {
			looks.Add(1)
			return nil
		})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := c.Watch(time.Second, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := c.Stop(struct{}{}, nil); err != nil {
			t.Error(err)
		}
		before := looks.Load()
		time.Sleep(time.Minute)
		if after := looks.Load(); after != before {
			t.Errorf("%d samples were taken after the end of all", after-before)
		}
	})
}

// What is asked for waits to be read while as much is under way as a lab ever has, and ends with the agent.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, input := io.Pipe()
		output, out := io.Pipe()
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), in, out, byAddress) }()
		go func() { _, _ = io.Copy(io.Discard, output) }()
		const many = 10_000
		var written atomic.Int64
		go func() {
			_, err := fmt.Fprintf(input, `{"method":"Agent.Watch","params":[%d],"id":1}`+"\n", time.Hour)
			for id := 2; id < many && err == nil; id++ {
				_, err = fmt.Fprintf(input, `{"method":"Agent.Next","params":[{}],"id":%d}`+"\n", id)
				written.Add(1)
			}
		}()
		synctest.Wait()
		if n := written.Load(); n > many/10 {
			t.Errorf("%d calls were read that wait for a sample", n)
		}
		// Nothing of that is heard, so it ends as where nothing comes.
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "nothing was heard of the lab") {
			t.Errorf("it ended with %v", err)
		}
		_ = errors.Join(in.Close(), out.Close()) // nobody reads the one, or writes to the other
	})
}
