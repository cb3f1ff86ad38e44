-- What the posts were filled with, if they were, and what cursors are signed with: one row.
CREATE TABLE feed.data_set (
    only_one    boolean CONSTRAINT data_set_pkey PRIMARY KEY DEFAULT true CHECK (only_one),
    origin      text CHECK (octet_length(origin) <= 512),
    fingerprint text CHECK (octet_length(fingerprint) <= 128),
    posts       bigint CHECK (posts > 0),
    cursor_key  bytea NOT NULL
);
-- Two random UUIDs have 244 random bits, hashed to 256.
INSERT INTO feed.data_set (cursor_key) VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

CREATE TABLE feed.authors (
    id    bigint CONSTRAINT authors_pkey PRIMARY KEY,
    name  text NOT NULL,
    role  text NOT NULL,
    team  text NOT NULL,
    about text NOT NULL,
    photo text NOT NULL
);

CREATE TABLE feed.posts (
    id        bigint CONSTRAINT posts_pkey PRIMARY KEY,
    published bigint NOT NULL, -- milliseconds since 1970
    author    bigint NOT NULL,
    pinned    boolean NOT NULL,
    media     integer NOT NULL,
    comments  integer NOT NULL,
    reactions bigint NOT NULL,
    title     text NOT NULL,
    text      text NOT NULL
);
CREATE INDEX posts_in_order_idx ON feed.posts (published, id);
CREATE INDEX posts_pinned_idx ON feed.posts (published, id) WHERE pinned;

-- What belongs to a post, in the order in which it is shown.
CREATE TABLE feed.media (
    post bigint, place integer, kind text NOT NULL, url text NOT NULL, alt text NOT NULL,
    width integer NOT NULL, height integer NOT NULL,
    CONSTRAINT media_pkey PRIMARY KEY (post, place)
);
CREATE TABLE feed.reactions (
    post bigint, place integer, kind text NOT NULL, count bigint NOT NULL,
    CONSTRAINT reactions_pkey PRIMARY KEY (post, place)
);
CREATE TABLE feed.comments (
    post bigint, place integer, author text NOT NULL, published bigint NOT NULL, text text NOT NULL,
    CONSTRAINT comments_pkey PRIMARY KEY (post, place)
);
