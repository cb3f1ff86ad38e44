-- Menus by id. A deleted menu stays as a row without a body, for its version goes on
-- when it is made again.
CREATE TABLE menu.menus (
    id      bigint NOT NULL CHECK (id BETWEEN 1 AND 999999999999999999),
    version bigint NOT NULL CHECK (version > 0),
    tag     bigint NOT NULL, -- 64 bits without a sign
    changed boolean NOT NULL, -- since the filling
    body    text COLLATE "C" CHECK (octet_length(body) <= 65536),
    CONSTRAINT menus_pkey PRIMARY KEY (id)
);

-- Tells what has changed without reading every menu.
CREATE INDEX menus_changed_idx ON menu.menus (id) WHERE changed;

-- Ids for menus that come without one. What it gives may be taken: it does not know of
-- ids that were chosen by others.
CREATE SEQUENCE menu.ids AS bigint MINVALUE 1 MAXVALUE 999999999999999999 CYCLE;

-- What the menus were filled with: one row, made when a filling begins and completed
-- when it has ended; none where every menu was written by itself.
CREATE TABLE menu.data_set (
    only_one     boolean CONSTRAINT data_set_pkey PRIMARY KEY DEFAULT true CHECK (only_one),
    origin       text NOT NULL CHECK (octet_length(origin) <= 512),
    fingerprint  text NOT NULL CHECK (octet_length(fingerprint) <= 128),
    menus        bigint NOT NULL CHECK (menus > 0),
    chunk_menus  integer NOT NULL CHECK (chunk_menus > 0),
    begun_at     timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz
);

-- What a filling has done: a row comes in the transaction that brings its menus.
CREATE TABLE menu.chunks (
    number   bigint CONSTRAINT chunks_pkey PRIMARY KEY CHECK (number >= 0),
    menus    integer NOT NULL CHECK (menus > 0),
    first_id bigint NOT NULL,
    last_id  bigint NOT NULL
);
