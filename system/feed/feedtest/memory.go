package feedtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// Memory is a feed.Store in memory, for tests of what stands before a store.
type Memory struct {
	mu      sync.Mutex
	entries []feed.Entry // in the order of the list
	meta    dataset.Meta
	closed  bool
}

// byPosition sorts the newest first.
func byPosition(e feed.Entry, p feed.Position) int {
	return -cmp.Or(cmp.Compare(e.Published, p.Published), cmp.Compare(e.ID, p.ID))
}

// lock begins what needs the store; the caller unlocks.
func (m *Memory) lock(ctx context.Context) (unlock func(), err error) {
	m.mu.Lock()
	if m.closed {
		err = feed.ErrUnavailable
	}
	return m.mu.Unlock, cmp.Or(ctx.Err(), err)
}

// Page implements feed.Store.
func (m *Memory) Page(ctx context.Context, behind feed.Position, limit int) ([]feed.Post, error) {
	unlock, err := m.lock(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	at, there := slices.BinarySearchFunc(m.entries, behind, byPosition)
	if there {
		at++
	}
	posts := []feed.Post{}
	for ; at < len(m.entries) && len(posts) < limit; at++ {
		posts = append(posts, m.entries[at].Post)
	}
	return posts, nil
}

// find is where the post with the id is; -1 if it is not there.
func (m *Memory) find(id int64) int {
	return slices.IndexFunc(m.entries, func(e feed.Entry) bool { return e.ID == id })
}

// Details implements feed.Store.
func (m *Memory) Details(ctx context.Context, part feed.Part, posts []int64) (feed.Details, error) {
	unlock, err := m.lock(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	found := feed.Details{}
	for _, id := range posts {
		i := m.find(id)
		if i < 0 {
			continue
		}
		switch e := m.entries[i]; part {
		case feed.PartMedia:
			for _, medium := range e.Media {
				found.AddMedium(id, medium)
			}
		case feed.PartAuthor:
			found[id] = &feed.Profile{Author: e.Author, Post: id}
		case feed.PartResponses:
			for _, r := range e.Reactions {
				found.AddReaction(id, r)
			}
			for _, c := range e.Comments[:min(len(e.Comments), feed.ShownComments)] {
				found.AddComment(id, c)
			}
		}
	}
	return found, nil
}

// Notices implements feed.Store.
func (m *Memory) Notices(ctx context.Context, seen int64) (feed.Notices, error) {
	n := feed.Notices{Pinned: []feed.Notice{}}
	unlock, err := m.lock(ctx)
	defer unlock()
	for i := 0; err == nil && i < len(m.entries) && m.entries[i].Published > seen; i++ {
		p := &m.entries[i].Post
		n.Unread = min(n.Unread+1, feed.MaxUnread)
		if p.Pinned && len(n.Pinned) < feed.MaxPinned {
			n.Pinned = append(n.Pinned, feed.Notice{Post: p.ID, Published: p.Published, Title: p.Title})
		}
	}
	return n, err
}

// Key implements feed.Store.
func (*Memory) Key(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// Meta implements feed.Store.
func (m *Memory) Meta(ctx context.Context) (dataset.Meta, error) {
	unlock, err := m.lock(ctx)
	defer unlock()
	if err == nil && m.meta.Count == 0 {
		err = feed.ErrMissing
	}
	return m.meta, err
}

// Put implements feed.Store.
func (m *Memory) Put(ctx context.Context, e *feed.Entry) error {
	unlock, err := m.lock(ctx)
	defer unlock()
	if err == nil && m.find(e.ID) >= 0 {
		err = fmt.Errorf("post %d is there", e.ID)
	}
	if err != nil {
		return err
	}
	e.Complete()
	for i := range m.entries {
		if m.entries[i].Author.ID == e.Author.ID {
			m.entries[i].Author = e.Author
		}
	}
	at, _ := slices.BinarySearchFunc(m.entries, e.Position(), byPosition)
	m.entries = slices.Insert(m.entries, at, *e)
	return nil
}

// Delete implements feed.Store.
func (m *Memory) Delete(ctx context.Context, id int64) error {
	unlock, err := m.lock(ctx)
	defer unlock()
	i := m.find(id)
	if err == nil && i < 0 {
		err = feed.ErrNotFound
	}
	if err == nil {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	return err
}

// Fill implements feed.Store.
func (m *Memory) Fill(ctx context.Context, source dataset.Source[feed.Entry], progress dataset.Progress) (bool, error) {
	switch have, err := m.Meta(ctx); {
	case err == nil && have.Same(source.Meta()):
		return true, nil
	case err == nil, len(m.entries) > 0:
		return false, feed.ErrOccupied
	}
	var all Memory
	err := dataset.Each(ctx, source, progress, func(e *feed.Entry) error { return all.Put(ctx, e) })
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries, m.meta = all.entries, source.Meta()
	return false, nil
}

// Close implements feed.Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
