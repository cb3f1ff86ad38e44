-- Changes of what of a menu is served, and not of the menu: their version is 0.
ALTER TABLE menu.outbox ADD COLUMN availability boolean NOT NULL DEFAULT false;
ALTER TABLE menu.changes ADD COLUMN availability boolean NOT NULL DEFAULT false;
