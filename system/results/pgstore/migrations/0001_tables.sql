-- Students, their schools, and their results: one table for each stream, for the
-- streams have different subjects. Names of keys are given because seeding takes
-- them off and puts them back (keys.go).

CREATE TABLE results.schools (
    id     integer CONSTRAINT schools_pkey PRIMARY KEY,
    name   text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 200),
    region text NOT NULL CHECK (octet_length(region) BETWEEN 1 AND 200),
    CONSTRAINT schools_name_key UNIQUE (region, name)
);

CREATE TABLE results.students (
    id         bigint NOT NULL CHECK (id BETWEEN 1 AND 999999999999999999),
    school_id  integer NOT NULL,
    birth_date date NOT NULL CHECK (birth_date BETWEEN '1900-01-01' AND '2100-12-31'),
    pass_mark  smallint NOT NULL CHECK (pass_mark BETWEEN 1 AND 700),
    stream     text COLLATE "C" NOT NULL CHECK (stream IN ('natural', 'social')),
    sex        text COLLATE "C" NOT NULL CHECK (sex IN ('female', 'male')),
    name       text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 200),
    code       text COLLATE "C" NOT NULL CHECK (octet_length(code) BETWEEN 8 AND 64),
    CONSTRAINT students_pkey PRIMARY KEY (id),
    -- What the tables of results refer to, so that nobody has a result in the
    -- stream of others.
    CONSTRAINT students_stream_key UNIQUE (id, stream),
    CONSTRAINT students_school_fkey FOREIGN KEY (school_id) REFERENCES results.schools (id)
);

CREATE TABLE results.natural_results (
    student_id  bigint NOT NULL,
    stream      text COLLATE "C" NOT NULL DEFAULT 'natural' CHECK (stream = 'natural'),
    english     smallint NOT NULL CHECK (english BETWEEN 0 AND 100),
    mathematics smallint NOT NULL CHECK (mathematics BETWEEN 0 AND 100),
    physics     smallint NOT NULL CHECK (physics BETWEEN 0 AND 100),
    chemistry   smallint NOT NULL CHECK (chemistry BETWEEN 0 AND 100),
    biology     smallint NOT NULL CHECK (biology BETWEEN 0 AND 100),
    aptitude    smallint NOT NULL CHECK (aptitude BETWEEN 0 AND 100),
    civics      smallint NOT NULL CHECK (civics BETWEEN 0 AND 100),
    CONSTRAINT natural_results_pkey PRIMARY KEY (student_id),
    CONSTRAINT natural_results_student_fkey FOREIGN KEY (student_id, stream) REFERENCES results.students (id, stream)
);

CREATE TABLE results.social_results (
    student_id  bigint NOT NULL,
    stream      text COLLATE "C" NOT NULL DEFAULT 'social' CHECK (stream = 'social'),
    english     smallint NOT NULL CHECK (english BETWEEN 0 AND 100),
    mathematics smallint NOT NULL CHECK (mathematics BETWEEN 0 AND 100),
    geography   smallint NOT NULL CHECK (geography BETWEEN 0 AND 100),
    history     smallint NOT NULL CHECK (history BETWEEN 0 AND 100),
    economics   smallint NOT NULL CHECK (economics BETWEEN 0 AND 100),
    aptitude    smallint NOT NULL CHECK (aptitude BETWEEN 0 AND 100),
    civics      smallint NOT NULL CHECK (civics BETWEEN 0 AND 100),
    CONSTRAINT social_results_pkey PRIMARY KEY (student_id),
    CONSTRAINT social_results_student_fkey FOREIGN KEY (student_id, stream) REFERENCES results.students (id, stream)
);

-- What the tables hold, and what is to be in them: one row, made when seeding
-- begins and completed when it has ended.
CREATE TABLE results.data_set (
    only_one       boolean CONSTRAINT data_set_pkey PRIMARY KEY DEFAULT true CHECK (only_one),
    origin         text NOT NULL CHECK (octet_length(origin) <= 512),
    fingerprint    text NOT NULL CHECK (octet_length(fingerprint) <= 128),
    students       bigint NOT NULL CHECK (students > 0),
    chunk_students integer NOT NULL CHECK (chunk_students > 0),
    begun_at       timestamptz NOT NULL DEFAULT now(),
    completed_at   timestamptz
);

-- What seeding has done: a row comes in the transaction that brings its students.
CREATE TABLE results.seed_chunks (
    number   bigint CONSTRAINT seed_chunks_pkey PRIMARY KEY CHECK (number >= 0),
    students integer NOT NULL CHECK (students > 0),
    first_id bigint NOT NULL,
    last_id  bigint NOT NULL
);
