package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"loadstone/system/menu"
)

// state is what there is of one menu.
type state struct {
	ID        int64
	Published *menu.Menu // nil if there is none
	Version   int64      // of Published, or of its deletion; 0 if there never was one
	Tag       string     // of Published, as tagOf writes it
	Draft     *draft     // nil if there is none
}

// draft is a menu that waits for being published.
type draft struct {
	menu.Document
	Menu *menu.Menu
	Base base
}

// base is the published menu that a draft was made from.
type base struct {
	Version int64 `json:"version"`
	// Tag is empty if there was none.
	Tag string `json:"tag"`
}

// tagOf is how forms and drafts write a tag.
func tagOf(tag uint64) string { return fmt.Sprintf("%016x", tag) }

// only is the condition that a menu or a document has the tag that tagOf wrote, or, for "",
// that there is none. What no tag is never holds.
func only(tag string) menu.Condition {
	if tag == "" {
		return menu.Condition{Absent: true}
	}
	var number uint64
	if _, err := fmt.Sscanf(tag, "%016x", &number); err != nil || tagOf(number) != tag {
		number = menu.Tag(nil) // no menu and no draft is empty
	}
	return menu.Condition{Tag: number, HasTag: true}
}

// body is the draft as it is stored.
func (b base) body(m *menu.Menu) []byte {
	return fmt.Appendf(nil, `{"base":{"version":%d,"tag":%q},"menu":%s}`, b.Version, b.Tag, m.AppendJSON(nil))
}

// look returns what there is of a menu.
func (a *Admin) look(ctx context.Context, id int64) (state, error) {
	s := state{ID: id}
	page, err := a.cfg.Desk.Lookup(ctx, id)
	s.Version = page.Version
	switch {
	case err == nil:
		defer runtime.KeepAlive(page.Owner)
		s.Tag = tagOf(page.Tag)
		if s.Published, err = stored(id, page.Body); err != nil {
			return s, err
		}
	case !errors.Is(err, menu.ErrNotFound):
		return s, err
	}
	document, err := a.cfg.Desk.Document(ctx, menu.Drafts, id)
	if errors.Is(err, menu.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Draft, err = parseDraft(document)
	return s, err
}

// stored is a menu as a store or a draft has it.
func stored(id int64, body []byte) (*menu.Menu, error) {
	m, err := menu.ParseStored(id, body)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

func parseDraft(document menu.Document) (*draft, error) {
	var body struct {
		Base base            `json:"base"`
		Menu json.RawMessage `json:"menu"`
	}
	if err := json.Unmarshal(document.Body, &body); err != nil {
		return nil, fmt.Errorf("draft %d: %w: %w", document.ID, menu.ErrCorrupt, err)
	}
	m, err := stored(document.ID, body.Menu)
	return &draft{document, m, body.Base}, err
}

// saveDraft stores a draft in place of the one with the tag.
func (a *Admin) saveDraft(ctx context.Context, m *menu.Menu, from base, replaces, editor string) error {
	return a.cfg.Desk.SetDocument(ctx, &menu.Document{Kind: menu.Drafts, ID: m.ID, Editor: editor, Body: from.body(m)}, only(replaces))
}

// dropDraft removes the draft if it still is the one with the tag.
func (a *Admin) dropDraft(ctx context.Context, id int64, tag, editor string) error {
	return a.cfg.Desk.SetDocument(ctx, &menu.Document{Kind: menu.Drafts, ID: id, Editor: editor}, only(tag))
}
