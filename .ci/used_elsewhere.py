"""What vulture cannot see used: names that libraries, the plugin's host, callers of the API or a published form use."""

# Libraries call or read these: httpx, http.cookiejar, onnxruntime, sentence-transformers, zipfile, expat, io, logging.
auth_flow
extract_cookies
max_seq_length
intra_op_num_threads
compress_type
create_system
external_attr
buffer_text
StartElementHandler
EndElementHandler
CharacterDataHandler
StartDoctypeDeclHandler
doctype
seekable
exc_text
_value_
authorized
daemon_threads
request_queue_size
protocol_version
disable_nagle_algorithm
close_connection

# Fields of values that are published whole, and members of published vocabularies.
citations
on_behalf_of
rank_with
rank_without
index_generation
PUBLIC
CONFIDENTIAL

# The API: what a caller or an author of tests uses.
asearch
register_external_knowledge
inject
heal

# Called by the name that a route of the fake Dify gives.
delete_dataset
create_by_text
update_by_text
update_segment
delete_segment
assign_metadata

# Called by markdown-it, by the name of a token.
code_inline
image
link_open
link_close
heading_open
heading_close

# Read by Python where an error is shown.
__cause__

# Called by Enum, with a name that is no member's.
_missing_

# A flag that must be given: the form of the export.
cedar

# Read by a service that takes OIDC tokens: their claims as a principal.
for_claims
