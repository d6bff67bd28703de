-- Counts the commits that changed an access class, so that a caller sees a new version only of what it may read.
ALTER TABLE classes ADD COLUMN generation bigint NOT NULL DEFAULT 0;
