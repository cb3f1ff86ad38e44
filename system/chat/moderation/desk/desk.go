// Package desk does what the hosts of all streams ask for: it stores it, and then tells
// those who are in the room.
//
//	Start ─► queue ─► plan ─► store, synced ─► in force ─► viewers, and Done
//
// One goroutine does the actions of all rooms, one after the other, so that the log of who did
// what has the order in which it was done. Another one ends the windows of reactions and shows
// messages that are held back.
//
// # Messages that are held back
//
// In a room with a delay nobody has a queue either: what viewers see is a cursor behind the
// end of the room's log, which moves on as messages become old enough. What was deleted until
// then is read from the log as deleted. After a start the cursor is where it was.
package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"loadstone/system/chat"
	"loadstone/system/chat/moderation"
)

// Log is where all of it is stored.
type Log interface {
	// Alter returns once an alteration is durable, with the message that is deleted as it is now.
	Alter(a *chat.Alteration) (deleted []byte, err error)
	// EachRecord calls take with all records.
	EachRecord(take func(stream int64, name string, value []byte) error) error
	// After returns messages from an offset on, count of them at most, and none at the end of the log.
	After(stream int64, from uint64, count int) ([]chat.Encoded, error)
	// Before returns messages before an offset, the oldest first.
	Before(stream int64, before uint64, count int) ([]chat.Encoded, error)
	// Time is that of what is said in a stream now.
	Time(stream int64) time.Time
}

// Viewers are those who are in the rooms.
type Viewers interface {
	// Publish shows a message to all.
	Publish(room int64, offset uint64, message []byte)
	// Redact shows another text in place of a message from now on.
	Redact(room int64, offset uint64, message []byte)
	// Announce tells all something; those who are slow must have it, or go without.
	Announce(room int64, message []byte, must bool)
	// Tell tells something to those of whom to is true, by what they are without having been appointed.
	Tell(room int64, message []byte, to func(user string, own moderation.Role) bool)
	// Remove ends a user's connections in a room.
	Remove(room int64, user string, why error)
	// Count is how many are in a room.
	Count(room int64) int
}

// Config says how a Desk works. Start from DefaultConfig.
type Config struct {
	Log     Log
	Viewers Viewers
	// Hosts reports whether somebody is the host of a stream.
	Hosts func(stream int64, user string) bool
	// Queue bounds the actions that wait. Who asks for one more is refused.
	Queue int
	// Window is how long reactions are counted before they are told.
	Window time.Duration
	// Look is how often it is looked whether messages that are held back are to be shown.
	Look time.Duration
	Now  func() time.Time
	// Registerer receives the metrics, see New.
	Registerer prometheus.Registerer
}

// DefaultConfig leaves Log, Viewers, Hosts and Registerer to the caller.
func DefaultConfig() Config {
	return Config{Queue: 256, Window: 500 * time.Millisecond, Look: 100 * time.Millisecond, Now: time.Now}
}

// Desk is safe for concurrent use.
type Desk struct {
	// Reactions are counted here by whoever hears of them.
	Reactions *moderation.Reactions

	cfg     Config
	queue   chan Task
	actions map[moderation.Kind]prometheus.Counter

	mu    sync.Mutex
	rooms map[int64]*Room
	held  map[int64]*Room // those of them in which messages are held back
}

// Room is a room's rules, and what of it is shown.
type Room struct {
	*moderation.Room

	id   int64
	line line
}

// Task is an action that somebody asks for.
type Task struct {
	Stream int64
	By     moderation.Actor
	Action moderation.Action
	// Done is told once what became of it, and must not block.
	Done func(error)
}

// New returns a Desk with the rules that are stored. It does nothing until it Runs. The metrics:
//
//	chat_actions_total{action}  what hosts and moderators did
//	chat_rooms_held             gauge: rooms in which messages are held back
func New(cfg Config) (*Desk, error) {
	d := &Desk{
		Reactions: moderation.NewReactions(), cfg: cfg, queue: make(chan Task, cfg.Queue), actions: map[moderation.Kind]prometheus.Counter{},
		rooms: map[int64]*Room{}, held: map[int64]*Room{},
	}
	auto := promauto.With(cfg.Registerer)
	done := auto.NewCounterVec(prometheus.CounterOpts{Name: "chat_actions_total", Help: "What hosts and moderators did."}, []string{"action"})
	for _, kind := range moderation.Kinds() {
		d.actions[kind] = done.WithLabelValues(string(kind))
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "chat_rooms_held", Help: "Rooms in which messages are held back."}, func() float64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return float64(len(d.held))
	})
	if err := cfg.Log.EachRecord(func(stream int64, name string, value []byte) error { return d.Room(stream).Load(name, value) }); err != nil {
		return nil, fmt.Errorf("read the rules of the rooms: %w", err)
	}
	for _, r := range d.rooms {
		if err := d.resume(r); err != nil {
			return nil, fmt.Errorf("find what is held back in room %d: %w", r.id, err)
		}
	}
	return d, nil
}

// Room is the room of a stream that there is.
func (d *Desk) Room(stream int64) *Room {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.rooms[stream]
	if r == nil {
		r = &Room{Room: moderation.NewRoom(), id: stream}
		d.rooms[stream] = r
	}
	return r
}

// Start has an action done. Unless it returns an error, the task's Done is told what became of it.
func (d *Desk) Start(t *Task) error {
	select {
	case d.queue <- *t:
		return nil
	default:
		return chat.ErrOverloaded
	}
}

// Run works until ctx ends. What is under way then is finished, and what waits is refused.
func (d *Desk) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return d.act(ctx) })
	all.Go(func() error { return d.tick(ctx) })
	return all.Wait()
}

func (d *Desk) act(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			for {
				select {
				case t := <-d.queue:
					t.Done(chat.ErrUnavailable)
				default:
					return nil
				}
			}
		case t := <-d.queue:
			t.Done(d.do(&t))
		}
	}
}

// own is what somebody is in a stream without having been appointed.
func (d *Desk) own(stream int64, user string) moderation.Role {
	if d.cfg.Hosts(stream, user) {
		return moderation.Host
	}
	return moderation.Viewer
}

// do does one action.
func (d *Desk) do(t *Task) error {
	r := d.Room(t.Stream)
	about := t.Action.User
	var message *chat.Message
	if offset := t.Action.Offset; offset != nil {
		found, err := d.cfg.Log.After(t.Stream, *offset, 1)
		if err != nil {
			return err
		}
		if len(found) == 1 {
			m, err := chat.ParseMessage(found[0].Bytes)
			if err != nil {
				return fmt.Errorf("message %d of room %d: %w", *offset, t.Stream, err)
			}
			message, about = &m, m.Sender
		}
	}
	change, err := r.Plan(d.cfg.Now(), t.By, &t.Action, message, d.own(t.Stream, about))
	if err != nil {
		return err
	}
	a := chat.Alteration{Stream: t.Stream, Records: change.Records, Entry: func(number uint64) ([]byte, error) {
		change.Entry.Number = number
		return json.Marshal(change.Entry)
	}}
	if change.Deletes {
		a.Delete = t.Action.Offset
	}
	deleted, err := d.cfg.Log.Alter(&a)
	if err != nil {
		return err
	}
	pinned := r.Pinned()
	var errs []error
	for name, value := range change.Records {
		errs = append(errs, r.Load(name, value))
	}
	d.actions[t.Action.Kind].Inc()
	d.tell(r, &t.Action, deleted)
	if pinned != nil && r.Pinned() == nil {
		d.cfg.Viewers.Announce(r.id, moderation.AppendPinned(nil, nil), true)
	}
	return errors.Join(errs...)
}

// tell tells viewers of an action that is in force.
func (d *Desk) tell(r *Room, a *moderation.Action, deleted []byte) {
	v := d.cfg.Viewers
	switch a.Kind {
	case moderation.Delete:
		v.Redact(r.id, *a.Offset, deleted)
		v.Announce(r.id, moderation.AppendDeleted(nil, *a.Offset), true)
	case moderation.Pin:
		v.Announce(r.id, moderation.AppendPinned(nil, r.Pinned()), true)
	case moderation.Set:
		v.Announce(r.id, moderation.AppendSettings(nil, r.Settings()), true)
	case moderation.Ban:
		v.Remove(r.id, a.User, moderation.ErrBanned)
	case moderation.Appoint, moderation.Dismiss:
		v.Tell(r.id, moderation.AppendRole(nil, r.Role(a.User, d.own(r.id, a.User))), func(user string, _ moderation.Role) bool { return user == a.User })
	case moderation.Unpin, moderation.Timeout, moderation.Unban: // nobody else needs to know
	}
}

// tick does what is due by time.
func (d *Desk) tick(ctx context.Context) error {
	windows, looks, sweeps := time.NewTicker(d.cfg.Window), time.NewTicker(d.cfg.Look), time.NewTicker(sweepEvery)
	defer windows.Stop()
	defer looks.Stop()
	defer sweeps.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-windows.C:
			for room, counts := range d.Reactions.Take() {
				d.cfg.Viewers.Announce(room, moderation.AppendReactions(nil, counts), false)
			}
		case <-looks.C:
			for _, r := range d.holding() {
				d.show(r)
			}
		case <-sweeps.C:
			d.sweep()
		}
	}
}

// sweepEvery is how often it is looked which rooms are empty.
const sweepEvery = time.Minute

// sweep frees what is only counted of rooms in which nobody is.
func (d *Desk) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, r := range d.rooms {
		if d.cfg.Viewers.Count(id) == 0 {
			r.Forget()
		}
	}
}
