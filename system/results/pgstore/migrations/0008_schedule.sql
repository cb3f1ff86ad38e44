-- The zone in which the instant of publication was announced, in seconds east of UTC, and
-- who set which instant, null for none.

ALTER TABLE results.data_set ADD COLUMN publish_zone integer NOT NULL DEFAULT 0;

CREATE TABLE results.schedule (
    set_at     timestamptz NOT NULL DEFAULT now(),
    set_by     text NOT NULL CHECK (set_by <> ''),
    publish_at timestamptz
);
