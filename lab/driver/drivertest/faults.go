package drivertest

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/fault"
	"loadstone/lab/host"
	"loadstone/lab/topology"
)

const pair = `
services:
  api:
    image: $IMAGE
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/shared/notes]
    environment: {NAME: api}
    volumes: ["$DIR/shared:$DIR/shared"]
    expose: ["8080"]
    stop_grace_period: 2m
    deploy: {replicas: 2}
`

// harmed is a system that faults can be done to.
type harmed struct {
	driver.Running
	fault.System
}

func (s suite) harmed(t *testing.T, dir string) harmed {
	t.Helper()
	r := s.up(t, dir, pair)
	system, ok := r.(fault.System)
	if !ok {
		t.Fatalf("no faults can be done to a %T", r)
	}
	return harmed{r, system}
}

// answers says whether an instance answers within a moment.
func answers(ctx context.Context, in topology.Instance) bool {
	return answersWithin(ctx, in, 300*time.Millisecond)
}

// answersWithin asks once.
func answersWithin(ctx context.Context, in topology.Instance, limit time.Duration) bool {
	client := http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + net.JoinHostPort(in.Host, strconv.Itoa(in.Port)) + "/ok"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return true
}

func (h harmed) wantAnswers(t *testing.T, instance int) {
	t.Helper()
	poll(t, func() bool { return answers(t.Context(), h.Instances()[instance]) }, func() { t.Errorf("instance %d does not answer", instance) })
}

func (h harmed) wantNoFailure(t *testing.T) {
	t.Helper()
	select {
	case err := <-h.Failed():
		t.Errorf("an end that was asked for was reported: %v", err)
	default:
	}
}

// endAndStart ends api-1 and starts it again, and wants api-2 to answer meanwhile.
func (h harmed) endAndStart(t *testing.T, end func(context.Context, string) error) {
	t.Helper()
	before := h.Instances()[0]
	if err := end(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	if answers(t.Context(), before) {
		t.Error("api-1 answers after its end")
	}
	if !answersWithin(t.Context(), h.Instances()[1], time.Minute) {
		t.Error("api-2 does not answer")
	}
	if err := end(t.Context(), "api-1"); err == nil {
		t.Error("it could be ended twice")
	}
	launched, err := h.Start(t.Context(), "api-1")
	if err != nil {
		t.Fatal(err)
	}
	now := h.Instances()[0]
	if !answersWithin(t.Context(), now, time.Minute) { // it has been said to be ready
		t.Error("api-1 does not answer once it is started again")
	}
	if now.PID == before.PID || !now.StartedAt.Equal(launched) || !launched.After(before.ReadyAt) || now.ReadyAt.Before(launched) {
		t.Errorf("launched %v: got %+v after %+v", launched, now, before)
	}
	if _, err := h.Start(t.Context(), "api-1"); err == nil {
		t.Error("what runs could be started again")
	}
	h.wantNoFailure(t)
}

func (s suite) again(t *testing.T) {
	dir := place(t)
	h := s.harmed(t, dir)
	notes := filepath.Join(dir, "shared", "notes")
	want := []string{"start api", "start api"}
	wantLines(t, notes, want) // else one is killed before it has noted its start
	h.endAndStart(t, h.Kill)
	want = append(want, "start api")
	wantLines(t, notes, want)
	h.endAndStart(t, h.Stop)
	wantLines(t, notes, append(want, "stop api terminated", "start api"))
	if err := h.Kill(t.Context(), "nobody-1"); err == nil || err.Error() != "there is no instance nobody-1" {
		t.Errorf("got %v", err)
	}
	// It is still watched.
	get(t, h.Instances()[0], "/crash")
	if err := failure(h); err == nil || !strings.HasPrefix(err.Error(), "api-1 exited with status 7") {
		t.Errorf("got %v, want its end", err)
	}
}

func (s suite) pause(t *testing.T) {
	h := s.harmed(t, place(t))
	if err := h.Pause(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	in := h.Instances()[0]
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", net.JoinHostPort(in.Host, strconv.Itoa(in.Port)))
	if err != nil {
		t.Errorf("it refuses: %v", err)
	} else {
		_ = conn.Close()
	}
	if answers(t.Context(), in) {
		t.Error("it answers")
	}
	if err := h.Resume(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	h.wantAnswers(t, 0)
	if err := h.Resume(t.Context(), "api-1"); err != nil {
		t.Errorf("what is not paused goes on: %v", err)
	}
	h.wantNoFailure(t)
}

// downFromEveryState leaves one instance paused and one killed.
func (s suite) downFromEveryState(t *testing.T) {
	h := s.harmed(t, place(t))
	if err := h.Pause(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	if err := h.Kill(t.Context(), "api-2"); err != nil {
		t.Fatal(err)
	}
	s.down(t, h.Running)
	if w := h.Warnings(); len(w) > 0 {
		t.Errorf("a paused instance was not asked to stop: %q", w)
	}
	if err := h.Pause(t.Context(), "api-1"); err == nil {
		t.Error("paused after Down")
	}
}

func (s suite) exec(t *testing.T) {
	dir := place(t)
	h := s.harmed(t, dir)
	said, err := h.Exec(t.Context(), "api-2", []string{"loadstone", "exit", "0", "I am ${NAME}, $$5"}, time.Minute)
	if err != nil || said != "I am api, $5" {
		t.Errorf("got %q, %v", said, err)
	}
	said, err = h.Exec(t.Context(), "api-1", []string{"loadstone", "exit", "3", "no luck"}, time.Minute)
	if err == nil || said != "no luck" || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a command that fails: got %q, %v", said, err)
	}
	if _, err := h.Exec(t.Context(), "api-1", []string{"loadstone", "sleep"}, 500*time.Millisecond); err == nil || !strings.Contains(err.Error(), "more than 500ms") {
		t.Errorf("got %v, want it to have taken too long", err)
	}
	h.wantNoFailure(t)
}

// watched watches an instance whose counters must not fall while it is killed and
// started again.
func (s suite) watched(t *testing.T) {
	s.needLimits(t)
	h := s.harmed(t, place(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, done := make(chan *host.Sample), make(chan error, 1)
	go func() {
		defer close(samples)
		done <- h.Hosts()[0].Watch(ctx, 20*time.Millisecond, func(s *host.Sample) error {
			select {
			case samples <- s:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	var cpu time.Duration
	next := func() host.Instance {
		t.Helper()
		sample, ok := <-samples
		if !ok {
			t.Fatalf("watching ended: %v", <-done)
		}
		in := sample.Instances[0]
		if in.Name != "api-1" || in.CPU < cpu {
			t.Errorf("got %+v after %v", in, cpu)
		}
		cpu = in.CPU
		return in
	}
	if in := next(); in.CPU == 0 || in.Memory == 0 {
		t.Errorf("got %+v", in)
	}
	acted := make(chan error, 1)
	go func() {
		err := h.Kill(ctx, "api-1")
		if err == nil {
			_, err = h.Start(ctx, "api-1")
		}
		acted <- err
	}()
	for acting := true; acting; {
		select {
		case err := <-acted:
			if err != nil {
				t.Fatal(err)
			}
			acting = false
		default:
			next()
		}
	}
	before := cpu
	for range 50 {
		answers(t.Context(), h.Instances()[0])
	}
	poll(t, func() bool { return next().CPU > before }, func() { t.Error("what it used since it was started again is not seen") })
	cancel()
	for range samples { // until it has ended
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
