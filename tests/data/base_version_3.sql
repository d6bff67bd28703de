BEGIN TRANSACTION;
CREATE TABLE attributes(
    attr_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, value TEXT NOT NULL, UNIQUE(name, value)
);
INSERT INTO "attributes" VALUES(1,'','[null,null,null,null]');
INSERT INTO "attributes" VALUES(2,'document_id','');
INSERT INTO "attributes" VALUES(3,'document_id','"a.md"');
INSERT INTO "attributes" VALUES(4,'fetched_at','');
INSERT INTO "attributes" VALUES(5,'fetched_at','"2026-03-02T10:00:00+00:00"');
INSERT INTO "attributes" VALUES(6,'document_id','"b.md"');
INSERT INTO "attributes" VALUES(7,'document_id','"c.md"');
INSERT INTO "attributes" VALUES(8,'document_version','');
INSERT INTO "attributes" VALUES(9,'document_version','"1"');
INSERT INTO "attributes" VALUES(10,'version','');
INSERT INTO "attributes" VALUES(11,'version','"1"');
CREATE TABLE calibrations(
    domain TEXT NOT NULL, model_id TEXT NOT NULL, partition_key INTEGER NOT NULL, signal TEXT NOT NULL,
    threshold REAL NOT NULL, strong REAL NOT NULL, own INTEGER NOT NULL, judged INTEGER NOT NULL,
    outside INTEGER NOT NULL, chunks INTEGER NOT NULL, base_chunks INTEGER NOT NULL, last_rid INTEGER NOT NULL,
    PRIMARY KEY (domain, model_id, partition_key)
);
INSERT INTO "calibrations" VALUES('HOUSE','',1,'1',0.3,0.6,40,2,40,3,3,4);
INSERT INTO "calibrations" VALUES('HOUSE','fake-4',1,'1',0.25,0.6,40,2,40,3,3,4);
INSERT INTO "calibrations" VALUES('HOUSE','',2,'1',0.3,0.6,40,2,40,1,1,4);
INSERT INTO "calibrations" VALUES('HOUSE','fake-4',2,'1',0.25,0.6,40,2,40,1,1,4);
CREATE TABLE cells(rid INTEGER PRIMARY KEY REFERENCES vectors ON DELETE CASCADE, cells BLOB NOT NULL);
CREATE TABLE centroids(partition_key INTEGER PRIMARY KEY, trained_on INTEGER NOT NULL, matrix BLOB NOT NULL);
CREATE TABLE chunks(
    rid INTEGER PRIMARY KEY AUTOINCREMENT, doc_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_id TEXT NOT NULL, content TEXT NOT NULL, fields TEXT NOT NULL, digest BLOB NOT NULL
);
INSERT INTO "chunks" VALUES(1,1,'a','A train needs no approval.','{"document_id":"a.md"}',X'3860E0FFE7BEA0AFF9AF83B9174E11323AA728A8F6B66380A5DD7F6C444FAF29');
INSERT INTO "chunks" VALUES(2,2,'b1','A hotel needs approval.','{"document_id":"b.md"}',X'330E558A3B89B7B11B6AB58536C6697AC4DED92DADBA98C1481A52769732947E');
INSERT INTO "chunks" VALUES(3,2,'b2','Its limit is 200 a night.','{"document_id":"b.md"}',X'C395F172E8E7C165F2A1C193E976B96E90A55DA72F2B23161CDF083166CC721A');
INSERT INTO "chunks" VALUES(4,3,'c','The board sets the limit.','{"document_id":"c.md","document_version":"1"}',X'7D69B932903C2E57CDA4EE96502804FBFF61221F3D244EF6501EE504E87E81D2');
CREATE TABLE documents(
    doc_key INTEGER PRIMARY KEY AUTOINCREMENT, source_key INTEGER NOT NULL REFERENCES sources,
    document_id TEXT NOT NULL, version TEXT NOT NULL, content_hash TEXT NOT NULL, chunk_count INTEGER NOT NULL,
    indexed_at TEXT NOT NULL, generation INTEGER NOT NULL, removed INTEGER
, partition_key INTEGER NOT NULL DEFAULT 1, claimed TEXT NOT NULL DEFAULT '');
INSERT INTO "documents" VALUES(1,1,'a.md','','1',1,'2026-03-02T10:00:00+00:00',1,NULL,1,'');
INSERT INTO "documents" VALUES(2,1,'b.md','','2',2,'2026-03-02T10:00:00+00:00',1,NULL,1,'');
INSERT INTO "documents" VALUES(3,3,'c.md','1','3',1,'2026-03-02T10:00:00+00:00',1,NULL,2,'');
CREATE TABLE embedding(
    one INTEGER PRIMARY KEY CHECK (one = 1), model_id TEXT NOT NULL, dimension INTEGER NOT NULL
);
INSERT INTO "embedding" VALUES(1,'fake-4',4);
CREATE TABLE partitions(
    partition_key INTEGER PRIMARY KEY AUTOINCREMENT, rules TEXT NOT NULL, classification TEXT NOT NULL,
    generation INTEGER NOT NULL, UNIQUE(rules, classification)
);
INSERT INTO "partitions" VALUES(1,'','',1);
INSERT INTO "partitions" VALUES(2,'board only','internal',1);
CREATE TABLE sources(source_key INTEGER PRIMARY KEY AUTOINCREMENT, source_id TEXT NOT NULL UNIQUE);
INSERT INTO "sources" VALUES(1,'sop');
INSERT INTO "sources" VALUES(3,'board');
CREATE TABLE state(
    one INTEGER PRIMARY KEY CHECK (one = 1), base_id TEXT NOT NULL, generation INTEGER NOT NULL,
    index_number INTEGER NOT NULL, analyser TEXT NOT NULL
);
INSERT INTO "state" VALUES(1,'5f0c2a9e4d7b4a1f8e3c6b1a2d4f7e90',1,1,'4.5');
CREATE TABLE vectors(
    rid INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL, digest BLOB NOT NULL
);
INSERT INTO "vectors" VALUES(1,X'F304353FF30435BF0000000000000000',X'C577FF0C8956974239B002BDBE9378C5CFBBABC18C2EF0C56566D20A2037AECA');
INSERT INTO "vectors" VALUES(2,X'3ACD133F3ACD13BF000000003ACD133F',X'3C02BC978D34789E3BA6F9B26FC984B24FAE2FB8F12487E14FC3DFC140787137');
INSERT INTO "vectors" VALUES(3,X'000000000000000000000000000080BF',X'5765BC2AD9FE674ABF3BEF060760FD8B91A7C1CC9C4490B860EF0929F719027B');
INSERT INTO "vectors" VALUES(4,X'0000000000000000000080BF00000000',X'1CD708FCB9176BC16177ED118C1BFBDB2EE1A1C0C83EE0447E15A5419F3EEA0A');
CREATE UNIQUE INDEX live_documents ON documents(source_key, document_id, version) WHERE removed IS NULL;
CREATE INDEX removed_documents ON documents(removed) WHERE removed IS NOT NULL;
CREATE INDEX chunks_by_document ON chunks(doc_key);
CREATE INDEX chunks_by_id ON chunks(chunk_id);
CREATE INDEX documents_by_partition ON documents(partition_key, generation);
CREATE INDEX documents_by_place ON documents(source_key, partition_key, claimed) WHERE removed IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('partitions',2);
INSERT INTO "sqlite_sequence" VALUES('sources',3);
INSERT INTO "sqlite_sequence" VALUES('documents',3);
INSERT INTO "sqlite_sequence" VALUES('chunks',4);
INSERT INTO "sqlite_sequence" VALUES('attributes',11);
COMMIT;
PRAGMA user_version = 3;
