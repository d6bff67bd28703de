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
INSERT INTO "attributes" VALUES(7,'','[null,null,null,"restricted"]');
INSERT INTO "attributes" VALUES(8,'','[null,null,null,"internal"]');
INSERT INTO "attributes" VALUES(9,'document_id','"c.md"');
INSERT INTO "attributes" VALUES(10,'document_version','');
INSERT INTO "attributes" VALUES(11,'document_version','"1"');
INSERT INTO "attributes" VALUES(12,'version','');
INSERT INTO "attributes" VALUES(13,'version','"1"');
CREATE TABLE cells(rid INTEGER PRIMARY KEY REFERENCES vectors ON DELETE CASCADE, cells BLOB NOT NULL);
CREATE TABLE centroids(one INTEGER PRIMARY KEY CHECK (one = 1), trained_on INTEGER NOT NULL, matrix BLOB NOT NULL);
CREATE TABLE chunks(
    rid INTEGER PRIMARY KEY AUTOINCREMENT, doc_key INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    chunk_id TEXT NOT NULL, content TEXT NOT NULL, fields TEXT NOT NULL, digest BLOB NOT NULL
);
INSERT INTO "chunks" VALUES(2,2,'b1','A hotel needs approval.','{"document_id":"b.md"}',X'330E558A3B89B7B11B6AB58536C6697AC4DED92DADBA98C1481A52769732947E');
INSERT INTO "chunks" VALUES(3,2,'b2','The secret limit is 900 USD.','{"classification":"restricted","document_id":"b.md"}',X'7DD8734CBB67B511305819EBC7266FEFA6C53D99F32DD3FF3EF7183475578EF0');
INSERT INTO "chunks" VALUES(4,3,'c','Hotels in town.','{"classification":"internal","document_id":"c.md","document_version":"1"}',X'15DCBF409756992D1C2AA2C9AC6E2DF8845421F16FB87F38F832103E96A2693E');
INSERT INTO "chunks" VALUES(5,4,'a','The limit for a hotel is 250 USD.','{"document_id":"a.md"}',X'717AF27610827F9726E075587D77E612CA68B5072D1A61F4A115D9E2297C11A6');
CREATE TABLE documents(
    doc_key INTEGER PRIMARY KEY AUTOINCREMENT, source_key INTEGER NOT NULL REFERENCES sources,
    document_id TEXT NOT NULL, version TEXT NOT NULL, content_hash TEXT NOT NULL, chunk_count INTEGER NOT NULL,
    indexed_at TEXT NOT NULL, generation INTEGER NOT NULL, removed INTEGER
);
INSERT INTO "documents" VALUES(2,1,'b.md','','h2',2,'2026-03-02T10:00:00+00:00',1,NULL);
INSERT INTO "documents" VALUES(3,3,'c.md','1','h3',1,'2026-03-02T10:00:00+00:00',1,NULL);
INSERT INTO "documents" VALUES(4,1,'a.md','','h4',1,'2026-03-02T10:00:00+00:00',2,NULL);
CREATE TABLE embedding(
    one INTEGER PRIMARY KEY CHECK (one = 1), model_id TEXT NOT NULL, dimension INTEGER NOT NULL
);
INSERT INTO "embedding" VALUES(1,'fake-4',4);
CREATE TABLE sources(source_key INTEGER PRIMARY KEY AUTOINCREMENT, source_id TEXT NOT NULL UNIQUE);
INSERT INTO "sources" VALUES(1,'sop');
INSERT INTO "sources" VALUES(3,'web');
CREATE TABLE state(
    one INTEGER PRIMARY KEY CHECK (one = 1), base_id TEXT NOT NULL, generation INTEGER NOT NULL,
    index_number INTEGER NOT NULL, analyser TEXT NOT NULL
);
INSERT INTO "state" VALUES(1,'f1772bcae6b44a6cb09662d085afa980',2,1,'4.4');
CREATE TABLE vectors(
    rid INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL, digest BLOB NOT NULL
);
INSERT INTO "vectors" VALUES(2,X'3ACD133F3ACD13BF000000003ACD133F',X'3C02BC978D34789E3BA6F9B26FC984B24FAE2FB8F12487E14FC3DFC140787137');
INSERT INTO "vectors" VALUES(3,X'F30435BF0000000000000000F30435BF',X'11BB84B508694C219400EEB3D30EE3F3CE22AEF50038268D8ACC39E8E5E4299A');
INSERT INTO "vectors" VALUES(4,X'00000000F30435BF00000000F304353F',X'57C0A15A009A6DFD2420D81B7347AA33E239C24AF937BB542B47237620C7E86B');
INSERT INTO "vectors" VALUES(5,X'F30435BF00000000F304353F00000000',X'EFB06474EC05148B3B11D283C609A69F4BAF8B25C63D414D297FD9D5BB1495E8');
CREATE UNIQUE INDEX live_documents ON documents(source_key, document_id, version) WHERE removed IS NULL;
CREATE INDEX documents_by_generation ON documents(generation);
CREATE INDEX removed_documents ON documents(removed) WHERE removed IS NOT NULL;
CREATE INDEX chunks_by_document ON chunks(doc_key);
CREATE INDEX chunks_by_id ON chunks(chunk_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sources',4);
INSERT INTO "sqlite_sequence" VALUES('documents',4);
INSERT INTO "sqlite_sequence" VALUES('chunks',5);
INSERT INTO "sqlite_sequence" VALUES('attributes',13);
COMMIT;
PRAGMA user_version = 2;
