-- The adapters learnt for a domain, with their switches, and how often documents changed their access class.
CREATE TABLE adapters (
    domain text NOT NULL, adapter_id text NOT NULL, model_id text NOT NULL, learnt_from text NOT NULL,
    maps bytea NOT NULL, digest bytea NOT NULL, evidence text NOT NULL, made_at text NOT NULL,
    PRIMARY KEY (domain, adapter_id)
);
ALTER TABLE adapters ALTER maps SET STORAGE EXTERNAL;
CREATE TABLE adapter_switches (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, domain text NOT NULL, learnt_from text NOT NULL,
    adapter_id text, switched_at text NOT NULL
);
ALTER TABLE state ADD COLUMN moves bigint NOT NULL DEFAULT 0;
