"""Which phrases together make an attempt to be obeyed: data of `core.policy.injection`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """Classes of phrases that make an attempt where all of them stand in one sentence, in any order.

    Attributes:
        classes: the one that is rarest in harmless text first: where it is missing, the others are not looked for.
        weight: 2 is enough by itself, 1 with another rule or mark near it.
    """

    name: str
    classes: tuple[str, ...]
    weight: int


RULES: Final = (
    Rule("override", ("ignore", "earlier", "orders"), 2),
    Rule("override_yours", ("ignore", "yours", "orders"), 1),
    Rule("void", ("void", "yours", "orders", "earlier"), 1),
    Rule("reveal", ("prompt", "reveal"), 2),
    Rule("repeat", ("verbatim", "above", "reveal"), 2),
    Rule("persona", ("become", "model"), 2),
    Rule("act", ("unbound_model", "act_as"), 2),
    Rule("address", ("address",), 2),
    Rule("reader", ("reads_this", "named"), 2),
    Rule("ordered_model", ("named", "must"), 1),
    Rule("updated", ("updated", "yours", "orders"), 1),
    Rule("conceal", ("conceal", "user"), 1),
    Rule("hush", ("hush",), 1),
    Rule("become", ("become",), 1),
    Rule("pretend", ("pretend",), 1),
    Rule("answer", ("answer",), 1),
    Rule("task", ("task",), 1),
    Rule("renewed", ("renewed",), 1),
    Rule("from_now", ("from_now",), 1),
    Rule("obey", ("obey",), 1),
    Rule("mode", ("mode",), 1),
    Rule("unbound", ("unbound",), 1),
    Rule("tool", ("tool",), 1),
    Rule("confirmation", ("confirmation",), 1),
    Rule("game", ("game",), 1),
    Rule("recite", ("verbatim", "write_all"), 1),
    Rule("asked", ("asked",), 1),
    Rule("free", ("free",), 1),
    Rule("machine", ("machine",), 1),
    Rule("summary", ("summary",), 1),
)
