-- Corrections of single students: which revision of the data set the tables
-- hold, and what each revision changed. The audit refers to no other table: it
-- outlives what it tells of.

ALTER TABLE results.data_set
    ADD COLUMN revision bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
    -- Of the data set with all corrections; null as long as there are none.
    ADD COLUMN revised_fingerprint text CHECK (octet_length(revised_fingerprint) <= 128),
    ADD CHECK ((revision = 0) = (revised_fingerprint IS NULL));

CREATE TABLE results.corrections (
    revision     bigint NOT NULL CHECK (revision > 0),
    student_id   bigint NOT NULL,
    corrected_at timestamptz NOT NULL DEFAULT now(),
    corrected_by text NOT NULL CHECK (corrected_by <> ''),
    source       text NOT NULL,
    -- The student's page before and after. Codes are secrets, and not in it.
    before       jsonb NOT NULL,
    after        jsonb NOT NULL,
    code_changed boolean NOT NULL,
    CONSTRAINT corrections_pkey PRIMARY KEY (student_id, revision)
);
