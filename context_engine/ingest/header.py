"""Declared fields of a document: YAML front matter, labelled lines at its top, and file properties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from context_engine.ingest.declared_fields import json_value

_MOST_FRONT: Final = 64 * 1024
_FRONT_END: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_MOST_LINES: Final = 40
_MOST_LINE: Final = 300
_MOST_VALUE: Final = 160
_IDENTIFIERS: Final = "version document_version document_id notice_id template_id entity_id superseded_by"
_AS_WRITTEN: Final = tuple(_IDENTIFIERS.split())
_CODE: Final = re.compile(r"[+-]?0[\dxob_]|[\d.+-]*[:_]")
_KEY_LINE: Final = re.compile(r"[ \t]*[\w\"'][^:\n]{0,60}:(?:[ \t]|$)", re.MULTILINE)
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "document_id": ("document no", "document number", "document id", "document ref", "doc no", "文件编号"),
    "version": ("version", "version no", "version number", "revision", "rev", "版本", "版本号"),
    "effective_from": (
        *("effective date", "effective from", "effective", "date effective", "in force from", "with effect from"),
        *("commencement date", "生效日期", "施行日期"),
    ),
    "effective_to": ("effective to", "effective until", "expiry date"),
    "date": (
        *("date", "date of issue", "issue date", "issued on", "date issued", "publication date", "published"),
        *("last updated", "last revised", "发布日期", "发行日期"),
    ),
    "classification": ("classification",),
    "superseded_by": ("superseded by",),
    "owner": ("owner", "document owner"),
    "notice_id": ("notice no", "notice number", "circular no", "circular number", "通知编号", "文号"),
    "template_id": ("template no", "template number", "template id", "form no"),
    "jurisdiction": ("jurisdiction",),
    "regulator": ("regulator", "issued by", "issuing authority", "issuing body", "发布机构", "发文机关"),
}
_FIELD_OF: Final = {label: name for name, labels in _LABELS.items() for label in labels}
_LINE: Final = re.compile(r"\s*(?:[-*>]\s+)*[*_]*([^\W\d][\w ./-]{0,30}?)[*_]*\s*[:：][*_]*\s*(\S.*?)[*_]*\s*$")
_ROW: Final = re.compile(r"\s*\|\s*[*_]*([^\W\d][\w ./-]{1,30}?)[*_:： ]*\|([^|]*[^|\s][^|]*)\|\s*$")
_SPACED: Final = re.compile(  # "Version 3.2", "Notice No. 637", "Effective 1 January 2026": no colon, nothing else
    r"\s*(?:[-*>]\s+)*[*_]*(?i:(version|rev(?:ision)?)\.?"
    r"|((?:notice|circular|document|template|form) (?:no|number)\b)\.?"
    r"|((?:effective|with effect from|in force from|last updated|issued on|date of issue)(?: date| from)?))\s+"
    r"(\S*\d\S*(?: [^\W\d]{3,9}\.?,? \d{4})?|[^\W\d]{3,9} \d{1,2}, \d{4})[*_]*\s*$"
)
_SEVERAL: Final = re.compile(r"\s*[|•·;]\s*|\t+|\s{2,}(?=[*_]*[^\W\d][\w ./-]{1,30}[*_]*\s*[:：])")
_LOWER_HEADING: Final = re.compile(r"\s{0,3}#{2,6}\s")
_NO_TITLE: Final = re.compile(
    r"(?i)(?:microsoft (?:word|excel|powerpoint)\b.*|(?:un(?:titled|benannt)|document|doc|book|slide|template)\s*\d*"
    r"|(?:presentation|präsentation|présentation|dokument|titel|title)\s*\d*|\[?(?:document |presentation )?title\]?"
    r"|(?:click|klicken).{0,20} to (?:add|edit) .{0,30}title.*|powerpoint presentation|word document|\W*"
    r"|(?:blank|normal|standard|basic|company|corporate|master|default|word|memo|letter|report)(?: \w+){0,2} template"
    r"|.*\.(?:docx?|docm|dot[xm]?|xls[xm]?|xlt[xm]?|pdf|indd|ppt[xm]?|pot[xm]?|rtf|odt|ott))"
)
_NO_AUTHOR: Final = re.compile(
    r"(?i)(?:python-docx|openpyxl|microsoft office user|administrator|admin|user|owner|author|unknown|root|\W*)"
)
_LIBRARY_DATE: Final = datetime(2013, 12, 23, 23, 15, tzinfo=UTC)  # the date in python-docx's template
_FIRST_YEAR: Final = 1990
_MOST: Final = 300
_LABEL: Final = re.compile(r"(?<!\S)([^\W\d_][^\W\d_.]*\.?(?: [^\W\d_]+\.?){0,3}) ?: ?")


class BrokenFrontMatter(ValueError):
    """The front matter cannot be read; `line` is the 1-based line of the file."""

    def __init__(self, problem: str, line: int) -> None:
        self.line = line
        super().__init__(problem)


class _FrontMatterLoader(yaml.SafeLoader):
    """The safe loader without aliases, a few of which can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not allowed", problem_mark=mark)
        return super().compose_node(parent, index)


def front_matter(text: str) -> tuple[Mapping[str, Any], int]:
    """Return the fields between two lines `---` at the start of a text, if any, and where the text below them begins.

    Identifiers, versions and codes stay as written: YAML would read 3.10 as 3.1, 0637 as 415 and 007 as 7.

    Raises:
        BrokenFrontMatter: no end, not a YAML mapping, or over 64 KiB.
    """
    first = text.find("\n")
    if first < 0 or text[:first].rstrip() != "---":
        return {}, 0
    end = _FRONT_END.search(text, first + 1)
    if _is_rule(text[first + 1 : min(end.start() if end else len(text), first + 1 + _MOST_FRONT)]):
        return {}, 0
    if end is None:
        raise BrokenFrontMatter("the front matter that opens with '---' has no closing '---'", 1)
    if end.start() > _MOST_FRONT:
        raise BrokenFrontMatter(f"the front matter is over {_MOST_FRONT // 1024} KiB", 1)
    return _mapping(text[first + 1 : end.start()]), min(end.end() + 1, len(text))


def _is_rule(below: str) -> bool:
    """Whether `---` above some lines is a rule: a blank line follows, or no line has the form `key: value`."""
    return bool(below.strip()) and (below.startswith(("\n", " \n")) or _KEY_LINE.search(below) is None)


def _mapping(source: str) -> dict[str, Any]:
    try:
        loader = _FrontMatterLoader(source)
        node = loader.get_single_node()
        fields = None if node is None else loader.construct_document(node)
        json.dumps(json_value(fields), ensure_ascii=False).encode()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise BrokenFrontMatter(f"the front matter is not YAML: {error.problem}", line) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise BrokenFrontMatter(f"the front matter cannot be read: {error}", 1) from None
    if node is None or fields is None:
        return {}
    if not isinstance(fields, dict):
        raise BrokenFrontMatter("the front matter must be a list of 'key: value' lines", 2)
    written = {key.value: value.value for key, value in node.value if isinstance(value, yaml.ScalarNode)}
    out = {str(key): value for key, value in fields.items()}
    kept = (
        key for key in written if out.get(key) is not None and (key in _AS_WRITTEN or _is_code(out[key], written[key]))
    )
    return {**out, **{key: written[key] for key in kept}}


def _is_code(value: object, written: str) -> bool:
    """Whether a number is written as no number is: 007, 0x1F, 12:30, 1_000."""
    return isinstance(value, int | float) and not isinstance(value, bool) and _CODE.match(written) is not None


def header_fields(text: str) -> dict[str, str]:
    """Return the values of labelled lines at the start of a text, by their front matter names.

    Recognised forms are `Version: 3.2`, `**Version:** 3.2`, `| Version | 3.2 |`, `Version 3.2` alone on its line, and
    several on one line between `|`, `;`, tabs or wide gaps. The first 40 lines are read, up to the first heading below
    the title; the first line for a field counts.

    >>> header_fields("# Notice\\n\\nNotice No.: 637\\nEffective date: 2026-01-15\\n")
    {'notice_id': '637', 'effective_from': '2026-01-15'}
    """
    out: dict[str, str] = {}
    for line in text[: _MOST_LINES * _MOST_LINE].splitlines()[:_MOST_LINES]:
        if _LOWER_HEADING.match(line):
            break
        for label, value in _labels_of_line(line) if len(line) <= _MOST_LINE else ():
            name = _FIELD_OF.get(" ".join(label.casefold().replace(".", " ").split()))
            value = value.strip().strip("*_").strip()
            if name and len(value) <= _MOST_VALUE and any(char.isalnum() for char in value):
                out.setdefault(name, value)
    return out


def _labels_of_line(line: str) -> Iterator[tuple[str, str]]:
    """Yield (label, value) of a table row, of each part of a line if all parts have a label, else of the whole line."""
    if row := _ROW.match(line):
        yield row[1], row[2]
        return
    parts = [part for part in _SEVERAL.split(line) if part]
    pairs = [_pair(part) for part in parts]
    labelled_pairs = [pair for pair in pairs if pair]
    if len(parts) > 1 and len(labelled_pairs) == len(parts):
        yield from labelled_pairs
    elif line_pair := _pair(line):
        yield line_pair


def _pair(part: str) -> tuple[str, str] | None:
    if match := _LINE.match(part):
        return match[1], match[2]
    match = _SPACED.match(part)
    return (match[1] or match[2] or match[3], match[4]) if match else None


def real_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return title, version, author, created and modified, except for values that a program filled in.

    Left out are file and program names as titles, library and account names as authors, the date of a library's
    template, and dates before 1990.

    Args:
        properties: texts and datetimes; a datetime without a time zone is taken as UTC.
    """
    out: dict[str, Any] = {}
    for name, refused in (("title", _NO_TITLE), ("author", _NO_AUTHOR), ("version", re.compile(r"\W*"))):
        text = " ".join(str(properties.get(name) or "").split())
        if text and len(text) <= _MOST and text.isprintable() and not refused.fullmatch(text):
            out[name] = text
    for name in ("created", "modified"):
        value = properties.get(name)
        if not isinstance(value, datetime):
            continue
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
        if value.year >= _FIRST_YEAR and value != _LIBRARY_DATE:
            out[name] = value
    return out


def moment(text: str) -> datetime | None:
    """Parse an ISO 8601 datetime; None for anything else."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def labelled(line: str) -> list[str]:
    """Split a page header with several labels into lines; each label also with fewer and fewer of its words.

    >>> labelled("Harbour Bank Version: 3.2 Owner: Risk")
    ['Harbour Bank Version: 3.2', 'Bank Version: 3.2', 'Version: 3.2', 'Owner: Risk']
    """
    labels = list(_LABEL.finditer(line))
    ends = [*(match.start() for match in labels[1:]), len(line)]
    out = []
    for match, end in zip(labels, ends):
        words = match[1].split()
        value = line[match.end() : end].strip(" |-–")
        out += [f"{' '.join(words[start:])}: {value}" for start in range(len(words))]
    return out
