-- One text holds all terms of a chunk, so that one index can find it by any of them; ingestion fills it (WORDS_VERSION).
ALTER TABLE words DROP COLUMN IF EXISTS body, DROP COLUMN IF EXISTS head,
    ADD COLUMN IF NOT EXISTS parts text NOT NULL DEFAULT '';
ALTER TABLE words ALTER parts SET STORAGE EXTERNAL;
-- Words as written stand among the terms and are looked up by their first letters.
ALTER TABLE terms ALTER term TYPE text COLLATE "C";
-- The generation of a class that its BM25 index was built for.
ALTER TABLE classes ADD COLUMN IF NOT EXISTS ranked bigint;
