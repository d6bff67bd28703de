"""Who may search what: a truth table against another way to decide, and the laws of every policy of manifests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product

from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    AccessReason,
    AccessRule,
    Chunk,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SourceSpec,
    SourceType,
)
from context_engine.core.policy.access import ManifestPolicy, access_class, has_rules, visible
from context_engine.errors import UnknownDomain
from context_engine.testing.fakes import ScriptedSource

LEVELS = tuple(Classification)
RULES = (
    None,
    AccessRule(),
    AccessRule(roles=("a",)),
    AccessRule(groups=("a",)),
    AccessRule(roles=("b", "a")),
    AccessRule(roles=("b",), groups=("g",)),
    AccessRule(clearance=Classification.CONFIDENTIAL),
    AccessRule(roles=("a",), clearance=Classification.INTERNAL),
)


def subsets(names: str) -> list[frozenset[str]]:
    return [frozenset(some) for some in chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))]


PRINCIPALS = [
    Principal(roles=roles, groups=groups, clearance=clearance)
    for roles, groups, clearance in product(subsets("ab"), subsets("ag"), LEVELS)
]


# -- another way to decide: what one would have to show, as a list of sufficient sets of tokens ------------------------


def levels_up_to(clearance: Classification) -> set[str]:
    return {f"level {level}" for level in LEVELS[: LEVELS.index(clearance) + 1]}


def tokens(principal: Principal) -> set[str]:
    """What a principal can show."""
    names = {f"role {one}" for one in principal.roles} | {f"group {one}" for one in principal.groups}
    return names | levels_up_to(principal.clearance)


def sufficient(rule: AccessRule | None) -> list[set[str]]:
    """The sets of tokens of which one is enough for a rule."""
    if rule is None:
        return [set()]
    least = {f"level {rule.clearance}"} if rule.clearance else set()
    names = [f"role {one}" for one in rule.roles] + [f"group {one}" for one in rule.groups]
    if not names:
        return [least] if least else []
    return [least | {name} for name in names]


def shown(domain: DomainSpec, source: SourceSpec, claimed: Classification | None) -> Iterator[set[str]]:
    """The sets of tokens of which one is enough for a document of a source, searched for in a domain."""
    extra = set()
    if domain.access or source.access:
        extra.add(f"level {source.classification}")
    if claimed is not None and LEVELS.index(claimed) > LEVELS.index(source.classification):
        extra.add(f"level {claimed}")
    return (outer | inner | extra for outer in sufficient(domain.access) for inner in sufficient(source.access))


def may_read(who: set[str], domain: DomainSpec, source: SourceSpec, claimed: Classification | None) -> bool:
    return any(enough <= who for enough in shown(domain, source, claimed))


def test_the_truth_table_of_rules_clearances_classes_and_documents():
    domains = {}
    for number, (outer, inner, level) in enumerate(product(RULES, RULES, LEVELS)):
        source = SourceSpec(id=f"s{number}", type="bank_sop", classification=level, access=inner)
        domains[f"D{number}"] = DomainSpec(version=1, domain=f"D{number}", sources=(source,), access=outer)
    policy, counted = ManifestPolicy(domains), [0, 0]
    for principal in PRINCIPALS:
        who = tokens(principal)
        for domain in domains.values():
            (source,) = domain.sources
            decision = policy.decide(principal, domain)
            rules = policy.rules_of(source.id)
            (decided,) = decision.sources
            assert decided.allowed == may_read(who, domain, source, None), (principal, domain)
            assert decided.allowed == (decided.reason in (AccessReason.NO_RULE, AccessReason.ADMITTED))
            assert (decided.reason is AccessReason.NO_RULE) == (domain.access is source.access is None) == (not rules)
            for claimed in LEVELS:
                held = access_class(rules, source.classification, claimed)
                found = decided.allowed and decision.scope.admits(held)
                assert found == may_read(who, domain, source, claimed), (principal, domain, claimed)
                assert decision.scope.admits(held) == found  # one domain alone: the class says all
                counted[found] += 1
    assert sum(counted) == 64 * 256 * 4
    assert min(counted) > 5_000


# -- laws -------------------------------------------------------------------------------------------------------------

names = st.lists(st.sampled_from("abc"), max_size=3)
levels = st.sampled_from(LEVELS)
rules = st.builds(AccessRule, roles=names, groups=names, clearance=st.none() | levels)
principals = st.builds(Principal, roles=st.frozensets(st.sampled_from("abc")),
                       groups=st.frozensets(st.sampled_from("abc")), clearance=levels)  # fmt: skip


@st.composite
def registries(draw) -> dict[str, DomainSpec]:
    """Domains that share some of their sources."""
    pool = [
        SourceSpec(id=name, type="bank_sop", access=draw(st.none() | rules), classification=draw(levels))
        for name in ("s1", "s2", "s3")
    ]
    domains = {}
    for name in ("D1", "D2"):
        sources = draw(st.lists(st.sampled_from(pool), min_size=1, unique_by=lambda one: one.id))
        domains[name] = DomainSpec(version=1, domain=name, sources=sources, access=draw(st.none() | rules))
    return domains


def seen(domains: dict[str, DomainSpec], principal: Principal) -> set[tuple[str, str]]:
    known = visible(Registry(domains=domains), ManifestPolicy(domains), principal)
    return {(name, source.id) for name, domain in known.domains.items() for source in domain.sources}


@given(registries(), principals, st.data())
def test_with_fewer_roles_or_groups_or_less_clearance_nobody_sees_more(domains, principal, data):
    less = Principal(
        roles=principal.roles & data.draw(st.frozensets(st.sampled_from("abc"))),
        groups=principal.groups & data.draw(st.frozensets(st.sampled_from("abc"))),
        clearance=data.draw(st.sampled_from(LEVELS[: principal.clearance.rank + 1])),
    )
    assert seen(domains, less) <= seen(domains, principal)
    policy, one = ManifestPolicy(domains), next(iter(domains.values()))
    scope, wider = policy.decide(less, one).scope, policy.decide(principal, one).scope
    assert scope.rules <= wider.rules
    assert scope.clearance.rank <= wider.clearance.rank


@given(registries(), principals)
def test_a_source_that_may_be_searched_is_one_whose_class_may_be_read(domains, principal):
    policy = ManifestPolicy(domains)
    for domain in domains.values():
        decision = policy.decide(principal, domain)
        for source in domain.sources:
            held = access_class(policy.rules_of(source.id), source.classification, None)
            assert source.id not in decision.allowed or decision.scope.admits(held)
    readable = {source for _, source in seen(domains, principal)}
    for source in {one.id: one for domain in domains.values() for one in domain.sources}.values():
        held = access_class(policy.rules_of(source.id), source.classification, None)
        assert policy.decide(principal, domains["D1"]).scope.admits(held) == (source.id in readable)


@given(registries(), st.randoms(use_true_random=False), principals)
def test_the_order_and_number_of_names_in_a_rule_says_nothing(domains, random, principal):
    def turned(rule: AccessRule | None) -> AccessRule | None:
        if rule is None:
            return None
        roles, groups = [*rule.roles, *rule.roles], list(rule.groups)
        random.shuffle(roles)
        random.shuffle(groups)
        return AccessRule(roles=roles, groups=groups, clearance=rule.clearance)

    sources = {
        one.id: one.model_copy(update={"access": turned(one.access)})
        for domain in domains.values()
        for one in domain.sources
    }
    other = {
        name: domain.model_copy(
            update={"access": turned(domain.access), "sources": tuple(sources[one.id] for one in domain.sources)}
        )
        for name, domain in domains.items()
    }
    first, second = ManifestPolicy(domains), ManifestPolicy(other)
    assert first.policy_hash == second.policy_hash
    assert {one: first.rules_of(one) for one in sources} == {one: second.rules_of(one) for one in sources}
    assert seen(domains, principal) == seen(other, principal)


@given(rules, rules, levels, principals)
def test_sources_of_one_class_are_open_to_the_same(one, other, level, principal):
    def spec(name: str, rule: AccessRule) -> SourceSpec:
        return SourceSpec(id=name, type="bank_sop", access=rule, classification=level)

    domains = {"D": DomainSpec(version=1, domain="D", sources=(spec("s1", one), spec("s2", other)))}
    policy = ManifestPolicy(domains)
    alike = policy.rules_of("s1") == policy.rules_of("s2")
    assert alike == (
        (set(one.roles), set(one.groups), one.clearance) == (set(other.roles), set(other.groups), other.clearance)
    )
    if alike:
        assert policy.decide(principal, domains["D"]).allowed in (frozenset(), frozenset({"s1", "s2"}))


@given(registries(), principals)
def test_a_hash_names_the_rules(domains, principal):
    assert ManifestPolicy(domains).policy_hash == ManifestPolicy(dict(reversed(domains.items()))).policy_hash
    stricter = {name: domain.model_copy(update={"access": AccessRule()}) for name, domain in domains.items()}
    assert has_rules(stricter.values())
    assert seen(stricter, principal) == set()
    if any(domain.access != AccessRule() for domain in domains.values()):
        assert ManifestPolicy(stricter).policy_hash != ManifestPolicy(domains).policy_hash


# -- a search ---------------------------------------------------------------------------------------------------------

words = st.sampled_from(["hotel", "limit", "approval", "approvol", "desk", "Falcon-7", "not", "5 %"])
mostly_open = st.sampled_from([None, None, AccessRule(roles=("a",)), AccessRule(groups=("a", "b")), AccessRule()])
claims = st.sampled_from([None, *LEVELS])
texts = st.lists(words, min_size=2, max_size=6).map(" ".join)


@st.composite
def holdings(draw) -> list[tuple[SourceSpec, list[Chunk]]]:
    """Sources with what they hold; documents claim classifications as they please."""
    kinds = draw(st.lists(st.sampled_from(list(SourceType)), min_size=1, max_size=3, unique=True))
    return [
        (
            SourceSpec(
                id=str(kind), type=kind, access=draw(mostly_open), classification=draw(st.sampled_from(LEVELS[:2]))
            ),
            [
                Chunk(
                    content=text,
                    chunk_id=f"{kind}-{number}",
                    classification=claim,
                    scores=(Score(ScoreKind.RELEVANCE, 1 / (number + 1)),),
                )
                for number, (text, claim) in enumerate(
                    draw(st.lists(st.tuples(texts, claims), min_size=1, max_size=5, unique_by=lambda one: one[0]))
                )
            ],
        )
        for kind in kinds
    ]


def outcome(make_engine, held, principal, query, **options):
    """What a caller gets, but for the times."""
    fields = {"access": options.pop("rule", None)}
    engine = make_engine(
        [(spec, ScriptedSource(spec.id, chunks)) for spec, chunks in held], domain_fields=fields, **options
    )
    try:
        result = engine.search(SearchRequest(query=query, domain="NPA", principal=principal))
    except UnknownDomain as error:
        return str(error)
    return stage_two_bytes(result), stage_two_bytes(recompute(result))


@given(holdings(), mostly_open, principals, texts)
def test_an_answer_is_that_of_a_bank_that_holds_nothing_else(make_engine, held, rule, principal, query):
    who = tokens(principal)
    domain = DomainSpec(version=1, domain="NPA", sources=tuple(spec for spec, _ in held), access=rule)
    permitted = [
        (spec, [one for one in chunks if may_read(who, domain, spec, one.classification)])
        for spec, chunks in held
        if may_read(who, domain, spec, None)
    ]
    found = outcome(make_engine, held, principal, query, rule=rule, access=ManifestPolicy({"NPA": domain}))
    if permitted:
        assert found == outcome(make_engine, permitted, principal, query)
    else:
        assert found == str(UnknownDomain("NPA", ()))
