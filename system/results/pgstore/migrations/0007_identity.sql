-- Which filling of the tables this is, and when its results are out: null if nobody
-- has said so, and then they are. A database of before gets an identity here.

ALTER TABLE results.data_set
    ADD COLUMN identity bigint NOT NULL DEFAULT hashtextextended(gen_random_uuid()::text, 0),
    ADD COLUMN publish_at timestamptz;

-- An import of before may have drawn codes, of which its fingerprint knows nothing.
UPDATE results.data_set SET
    fingerprint = fingerprint || ', fill ' || lpad(to_hex(identity), 16, '0'),
    revised_fingerprint = revised_fingerprint || ', fill ' || lpad(to_hex(identity), 16, '0')
WHERE fingerprint NOT LIKE 'generator %';

-- What was corrected lately, for those who keep pages.
CREATE INDEX corrections_revision_idx ON results.corrections (revision);
