-- Who made a menu's version, and when; neither of what a filling brought. A filling may be
-- under way, in a table of its own.
ALTER TABLE menu.menus ADD COLUMN editor text COLLATE "C", ADD COLUMN changed_at timestamptz;
ALTER TABLE IF EXISTS menu.filling ADD COLUMN editor text COLLATE "C", ADD COLUMN changed_at timestamptz;

-- What menus were before the version that they have.
CREATE TABLE menu.revisions (
    id         bigint NOT NULL,
    version    bigint NOT NULL,
    editor     text COLLATE "C",
    changed_at timestamptz,
    body       text COLLATE "C",
    CONSTRAINT revisions_pkey PRIMARY KEY (id, version)
);

-- Changes that have no number yet: it is given after they are committed, so that no reader
-- of numbers ever passes one that comes later.
CREATE TABLE menu.outbox (
    id         bigint NOT NULL,
    version    bigint NOT NULL,
    editor     text NOT NULL COLLATE "C",
    changed_at timestamptz NOT NULL,
    deleted    boolean NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (changed_at, id, version)
);

-- The log of changes.
CREATE TABLE menu.changes (
    number     bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT changes_pkey PRIMARY KEY,
    id         bigint NOT NULL,
    version    bigint NOT NULL,
    editor     text NOT NULL COLLATE "C",
    changed_at timestamptz NOT NULL,
    deleted    boolean NOT NULL
);

CREATE TABLE menu.documents (
    kind       text NOT NULL COLLATE "C",
    id         bigint NOT NULL,
    editor     text NOT NULL COLLATE "C",
    changed_at timestamptz NOT NULL,
    body       text NOT NULL COLLATE "C",
    CONSTRAINT documents_pkey PRIMARY KEY (kind, id)
);
