-- A post's version is the number of its last change, 0 of what a filling brought.
ALTER TABLE feed.posts ADD COLUMN version bigint NOT NULL DEFAULT 0;

CREATE TABLE feed.changes (
    number bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT changes_pkey PRIMARY KEY,
    at     bigint NOT NULL, -- milliseconds since 1970
    editor text NOT NULL,
    action text NOT NULL,
    post   bigint NOT NULL,
    title  text NOT NULL
);
CREATE INDEX changes_of_posts_idx ON feed.changes (post, number);

-- Posts that are taken down: out of the tables of what is read, each a line of JSON.
CREATE TABLE feed.kept (
    id        bigint CONSTRAINT kept_pkey PRIMARY KEY,
    version   bigint NOT NULL,
    published bigint NOT NULL,
    title     text NOT NULL,
    editor    text NOT NULL,
    at        bigint NOT NULL,
    line      text NOT NULL
);
CREATE INDEX kept_by_version_idx ON feed.kept (version);
