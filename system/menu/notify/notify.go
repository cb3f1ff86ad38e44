// Package notify lets a block of webhooks read a desk's log of changes, and keep its places
// in the desk's documents.
//
// An endpoint is told which menu changed, when, by whom, and which version that made; what
// the menu says it asks for. So it is told that the availability of a menu changed.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"loadstone/block/dataset"
	"loadstone/block/webhook"
	"loadstone/system/menu"
)

// Config returns the configuration of a sender for a desk. Endpoints and Registerer are for
// the caller.
func Config(desk menu.Desk) webhook.Config {
	c := webhook.DefaultConfig()
	c.Source, c.Places, c.Kept = source{desk}, places{desk}, menu.KeptChanges
	return c
}

// source is a desk's log.
type source struct{ desk menu.Desk }

// event is the body of a message.
type event struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	ID        int64  `json:"id"`
	Version   int64  `json:"version,omitempty"`
	Deleted   bool   `json:"deleted"`
	Editor    string `json:"editor,omitempty"`
}

// After implements webhook.Source.
func (s source) After(ctx context.Context, cursor string, limit int) ([]webhook.Message, error) {
	changes, err := s.desk.Changes(ctx, menu.Cursor(cursor), min(limit, menu.MaxListed))
	messages := make([]webhook.Message, len(changes))
	for i, c := range changes {
		kind, key, id := "menu.changed", strconv.FormatInt(c.ID, 10), fmt.Sprintf("menu_%d_%d", c.ID, c.Version)
		if c.Availability { // with a key of its own: neither stands for the other
			kind, key, id = "menu.availability", "availability "+key, "availability_"+string(c.Cursor)
		}
		body, err := json.Marshal(event{
			Type: kind, Timestamp: webhook.Timestamp(c.At),
			ID: c.ID, Version: c.Version, Deleted: c.Deleted, Editor: c.Editor,
		})
		if err != nil {
			return nil, err
		}
		messages[i] = webhook.Message{
			ID: id, Key: key, Cursor: string(c.Cursor), At: c.At, Body: body,
		}
	}
	return messages, err
}

// End implements webhook.Source.
func (s source) End(ctx context.Context) (string, error) {
	end, err := menu.End(ctx, s.desk)
	return string(end), err
}

// places are a desk's documents of the kind Deliveries.
type places struct{ desk menu.Desk }

// editor is who writes the places.
const editor = "webhook"

// document is the id of an endpoint's document. Names are few, so no two are alike.
func document(endpoint string) int64 {
	return int64(menu.Tag([]byte(endpoint))%dataset.MaxID) + 1
}

// Load implements webhook.Places.
func (p places) Load(ctx context.Context, endpoint string) ([]byte, error) {
	d, err := p.desk.Document(ctx, menu.Deliveries, document(endpoint))
	if errors.Is(err, menu.ErrNotFound) {
		return nil, nil
	}
	return d.Body, err
}

// Swap implements webhook.Places.
func (p places) Swap(ctx context.Context, endpoint string, old, place []byte) error {
	only := menu.Condition{Absent: true}
	if old != nil {
		only = menu.Condition{HasTag: true, Tag: menu.Tag(old)}
	}
	err := p.desk.SetDocument(ctx, &menu.Document{Kind: menu.Deliveries, ID: document(endpoint), Editor: editor, Body: place}, only)
	if errors.Is(err, menu.ErrChanged) {
		return fmt.Errorf("%w: %w", webhook.ErrTaken, err)
	}
	return err
}
