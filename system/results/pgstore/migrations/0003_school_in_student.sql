-- A student's row gets the school's name and region, so that a look-up needs no
-- join for them. This and the next steps are apart so that none holds a lock that
-- look-ups wait for longer than a moment, however many students there are: this
-- one looks at no row of theirs.

-- What students will refer to. Few rows.
ALTER TABLE results.schools ADD CONSTRAINT schools_place_key UNIQUE (id, region, name);

ALTER TABLE results.students
    ADD COLUMN school text,
    ADD COLUMN region text,
    ADD CONSTRAINT students_place_check CHECK (school IS NOT NULL AND region IS NOT NULL) NOT VALID;
