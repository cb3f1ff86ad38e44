-- Reads every student, under locks that no look-up waits for: writers do.

ALTER TABLE results.students VALIDATE CONSTRAINT students_place_check;

-- Name and region are always those of the school.
ALTER TABLE results.students ADD CONSTRAINT students_place_fkey
    FOREIGN KEY (school_id, region, school) REFERENCES results.schools (id, region, name) ON UPDATE CASCADE;

-- A school's students, for bundles.
CREATE INDEX students_school_idx ON results.students (school_id);
