"""Check that a wheel holds context_engine alone, with its demo data and type marker, and nothing else."""

import sys
import zipfile

names = zipfile.ZipFile(sys.argv[1]).namelist()
tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
assert tops == {"context_engine"}, f"the wheel holds more than context_engine: {sorted(tops)}"
for needed in (
    "context_engine/py.typed",
    "context_engine/demo/manifests/npa.yaml",
    "context_engine/demo/questions.jsonl",
    "context_engine/learning/out_of_scope.jsonl",
    "context_engine/evaluation/page/report.css",
    "context_engine/evaluation/page/report.js",
    "context_engine/settings/templates/config/rag-pipeline.json",
    "context_engine/apps/web/templates/base.html",
    "context_engine/apps/web/static/style.css",
):
    assert needed in names, f"the wheel lacks {needed}"
documents = [name for name in names if name.startswith("context_engine/demo/bank/")]
assert len(documents) >= 60, f"the wheel holds {len(documents)} demo files"
assert not [name for name in names if "dify_plugin" in name or "tests/" in name]
print(f"wheel: {len(names)} files, {len(documents)} of them demo documents, context_engine alone")
