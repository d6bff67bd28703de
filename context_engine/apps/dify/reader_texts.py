"""The sentences that reach an end user through Dify, in English, Chinese, Japanese and Portuguese.

Only sentences for readers are here. Codes, names, logs and the errors for the author of a workflow stay English, and so
do the notes for a model inside a context.
"""

from __future__ import annotations

import re
from typing import Final, Literal, cast, get_args

from context_engine.core.query.features import language

Tongue = Literal["en", "zh", "ja", "pt"]
_TONGUES: Final[tuple[Tongue, ...]] = get_args(Tongue)

AUTOMATIC: Final = "automatic"
LANGUAGE_CHOICES: Final[dict[str, Tongue | None]] = {
    AUTOMATIC: None,
    "en_US": "en",
    "zh_Hans": "zh",
    "ja_JP": "ja",
    "pt_BR": "pt",
}
"""Each choice of the field `language`, by Dify's names; None for the language of the question."""

_KANA: Final = re.compile(r"[\u3041-\u30ff]")
_PORTUGUESE: Final = re.compile(
    r"[ãõ]|\b(?:qual|quais|quem|quando|quanto|onde|como|porque|não|para|prazo|você|uma?|dos|das|pelo|pela|os?|é|isso|isto|da|ao)\b"
)
_TELLING: Final = frozenset({"ã", "õ", "qual", "quais", "quem", "não", "você"})
_LEAST_PORTUGUESE: Final = 2
"""Portuguese words in a question that is more likely of another language."""

_OF_ANOTHER: Final = re.compile(r"[¿¡ñ]|\b(?:el|los|las|del|cuál|cómo|qué|il|gli|che|der|die|das|le|les|des)\b")


def tongue_of(question: str, choice: str = AUTOMATIC) -> Tongue:
    """Return the language in which to answer a question.

    A Japanese question without kana is written like a Chinese one and counts as Chinese; a language without texts here
    counts as English.

    Args:
        choice: one of `LANGUAGE_CHOICES`; `automatic` for the language of the question.

    >>> [tongue_of(text) for text in ("Who approves?", "谁来审批？", "誰が承認しますか", "Qual é o prazo?")]
    ['en', 'zh', 'ja', 'pt']
    """
    chosen = LANGUAGE_CHOICES[choice]
    if chosen is not None:
        return chosen
    likely = language(question)
    if likely == "zh" and _KANA.search(question):
        return "ja"
    if likely in ("zh", "ja"):
        return cast(Tongue, likely)
    return "pt" if _is_portuguese(question.casefold(), 1 if likely == "pt" else _LEAST_PORTUGUESE) else "en"


def _is_portuguese(question: str, least: int) -> bool:
    """Return whether a question has enough Portuguese words, or a telling one, and no word of its neighbours."""
    words = set(_PORTUGUESE.findall(question))
    return bool(words & _TELLING or len(words) >= least) and not _OF_ANOTHER.search(question)


def reader_text(name: str, tongue: Tongue, /, **values: str) -> str:
    """Return a sentence.

    Args:
        name: a key of the table.
        values: for the braces of the sentence.
    """
    return _TEXTS[name][_TONGUES.index(tongue)].format(**values)


_TEXTS: Final[dict[str, tuple[str, str, str, str]]] = {
    "demo": (
        "DEMO: an invented bank, none of it is true.",
        "DEMO：虚构的银行，内容均不真实。",
        "DEMO：架空の銀行であり、内容はすべて事実ではありません。",
        "DEMO: um banco fictício, nada disto é real.",
    ),
    "nothing_found": (
        "No relevant information found",
        "未找到相关信息",
        "関連する情報は見つかりませんでした",
        "Nenhuma informação relevante foi encontrada",
    ),
    "sources_missing": (
        "Knowledge incomplete: {names} unavailable",
        "知识不完整：{names}不可用",
        "ナレッジが不完全です: {names}を利用できません",
        "Conhecimento incompleto: {names} indisponível",
    ),
    "part_of_search": ("a part of the search", "部分检索", "検索の一部", "uma parte da pesquisa"),
    "between_names": (", ", "、", "、", ", "),
    "missing_from_passages": (
        "{title}. What it holds is missing from these passages: tell the reader so.",
        "{title}。以下段落不包含其中的内容，请告知读者。",
        "{title}。その内容は以下のパッセージに含まれていません。読者にそのことを伝えてください。",
        "{title}. O conteúdo dessa fonte não está nestes trechos: informe isso ao leitor.",
    ),
    "missing_from_records": (
        "{title}. What it holds is missing from these records: tell the reader so.",
        "{title}。以下记录不包含其中的内容，请告知读者。",
        "{title}。その内容は以下のレコードに含まれていません。読者にそのことを伝えてください。",
        "{title}. O conteúdo dessa fonte não está nestes registros: informe isso ao leitor.",
    ),
    "ranking_title": ("Ranking incomplete", "排序不完整", "順位付けが不完全です", "Ordenação incompleta"),
    "ranking": (
        "Ranking incomplete: a stage of the search failed. These passages are ranked without it: tell the reader so.",
        "排序不完整：检索的一个阶段失败，以下段落未经该阶段排序，请告知读者。",
        "順位付けが不完全です: 検索の一部が失敗し、以下のパッセージはその段階なしで並んでいます。読者に伝えること。",
        "Ordenação incompleta: uma etapa da pesquisa falhou; estes trechos estão ordenados sem ela. Avise o leitor.",
    ),
    "did_not_answer": (
        "{names} did not answer: {reason}",
        "{names}未响应：{reason}",
        "{names}が応答しませんでした: {reason}",
        "Sem resposta de {names}: {reason}",
    ),
    "answered_in_part": (
        "{names} answered only in part: {reason}",
        "{names}仅部分响应：{reason}",
        "{names}は一部しか応答しませんでした: {reason}",
        "Resposta apenas parcial de {names}: {reason}",
    ),
    "named_tier": (
        "{name} (tier {tier})",
        "{name}（第 {tier} 级）",
        "{name}（レベル {tier}）",
        "{name} (nível {tier})",
    ),
    "no_reason": ("no reason is known", "原因不明", "理由は不明です", "motivo desconhecido"),
    "nothing_searched": (
        "Knowledge incomplete: nothing was searched",
        "知识不完整：未进行检索",
        "ナレッジが不完全です: 検索は行われませんでした",
        "Conhecimento incompleto: nada foi pesquisado",
    ),
    "search_failed": (
        "Knowledge incomplete: the search failed",
        "知识不完整：检索失败",
        "ナレッジが不完全です: 検索に失敗しました",
        "Conhecimento incompleto: a pesquisa falhou",
    ),
    "filter_left_nothing": (
        "Filter left nothing",
        "过滤后没有剩余内容",
        "フィルターの結果、該当がなくなりました",
        "O filtro não deixou nenhum resultado",
    ),
    "mend_knowledge_id": (
        "Correct the External Knowledge ID of this knowledge base in Dify.",
        "请在 Dify 中更正该知识库的外部知识库 ID。",
        "Dify でこのナレッジベースの外部ナレッジベース ID を修正してください。",
        "Corrija o ID de conhecimento externo desta base de conhecimento no Dify.",
    ),
    "mend_persona": (
        "Correct the persona of this External Knowledge API in Dify.",
        "请在 Dify 中更正该外部知识库 API 的检索预设。",
        "Dify でこの外部ナレッジベース連携 API のペルソナを修正してください。",
        "Corrija a persona desta API de conhecimento externo no Dify.",
    ),
    "mend_search": (
        "Tell the reader that nothing could be looked up. An administrator can fix it.",
        "请告知读者未能查询到任何内容。管理员可以解决此问题。",
        "何も調べられなかったことを読者に伝えてください。管理者が対処できます。",
        "Informe ao leitor que nada pôde ser consultado. Um administrador pode resolver.",
    ),
    "subject_missing_title": (
        "The question needs its subject",
        "问题缺少主题",
        "質問の対象が示されていません",
        "Falta o assunto da pergunta",
    ),
    "subject_missing": (
        "The question does not say what it is about. Ask it as one complete sentence: {example}",
        "问题没有说明所指的内容。请用一个完整的句子提问：{example}",
        "何についての質問かが示されていません。一つの完全な文で質問してください: {example}",
        "A pergunta não diz do que trata. Faça-a em uma frase completa: {example}",
    ),
    "subject_example": (
        '"What are the approval limits for retail clients?" instead of "And for retail clients?".',
        "例如问“零售客户的审批限额是多少？”，而不是“那零售客户呢？”。",
        "「個人のお客様の場合は？」ではなく「個人のお客様の承認限度額はいくらですか？」。",
        '"Quais são os limites de aprovação para clientes de varejo?" em vez de "E para clientes de varejo?".',
    ),
    "refused_no_match": (
        "Nothing relevant was found. Try other words, or another domain.",
        "未找到相关内容。请换用其他词语，或选择其他领域。",
        "関連する内容は見つかりませんでした。別の言葉か、別のドメインで質問してください。",
        "Nada relevante foi encontrado. Tente outras palavras ou outro domínio.",
    ),
    "refused_out_of_scope": (
        "This question does not belong to this domain. Ask another domain, or name the subject.",
        "该问题不属于此领域。请选择其他领域，或说明主题。",
        "この質問はこのドメインの対象外です。別のドメインで質問するか、対象を示してください。",
        "Esta pergunta não pertence a este domínio. Pergunte em outro domínio ou diga o assunto.",
    ),
    "refused_incomplete": (
        "A source that this answer needs could not be searched, so there is no answer. Ask again later.",
        "无法检索该回答所需的来源，因此没有回答。请稍后再试。",
        "この回答に必要なソースを検索できなかったため、回答はありません。後でもう一度質問してください。",
        "Uma fonte necessária para esta resposta não pôde ser pesquisada, por isso não há resposta. Tente mais tarde.",
    ),
    "refused_no_sentence": (
        "The passages that were found do not hold the answer.",
        "找到的段落中没有答案。",
        "見つかったパッセージに答えはありません。",
        "Os trechos encontrados não contêm a resposta.",
    ),
    "refused_unsupported": (
        "What the model wrote is not supported by the passages that it cites, so it is not shown.",
        "模型所写的内容未得到其引用段落的支持，因此不予显示。",
        "モデルが書いた内容は、引用したパッセージで裏付けられていないため表示しません。",
        "O que o modelo escreveu não tem apoio nos trechos que cita, por isso não é mostrado.",
    ),
    "verdict_partly": (
        "(only partly in the sources)",
        "（来源仅部分支持）",
        "（ソースには一部のみ）",
        "(apenas em parte nas fontes)",
    ),
    "verdict_unsupported": (
        "(not supported by the sources)",
        "（来源不支持）",
        "（ソースの裏付けなし）",
        "(sem apoio nas fontes)",
    ),
    "verdict_uncited": ("(no source)", "（无来源）", "（出典なし）", "(sem fonte)"),
    "conflict": (
        "The sources disagree ({codes}): {first}; {second}. {end}",
        "来源不一致（{codes}）：{first}；{second}。{end}",
        "ソースの内容が一致しません（{codes}）: {first}、{second}。{end}",
        "As fontes divergem ({codes}): {first}; {second}. {end}",
    ),
    "conflict_side": (
        "{label}{tier}{date} says “{quote}”",
        "{label}{tier}{date}：“{quote}”",
        "{label}{tier}{date}：「{quote}」",
        "{label}{tier}{date} diz “{quote}”",
    ),
    "conflict_tier": (", tier {tier}", "（第 {tier} 级）", "（レベル {tier}）", ", nível {tier}"),
    "conflict_date": (
        ", in force from {date}",
        "（自 {date} 起生效）",
        "（{date} から有効）",
        ", em vigor desde {date}",
    ),
    "conflict_yields": (
        "{label} has less authority.",
        "{label} 的权威性较低。",
        "{label} の方が権威が低いです。",
        "{label} tem menos autoridade.",
    ),
    "conflict_undecided": (
        "Neither has more authority.",
        "两者权威性相同。",
        "どちらの権威も同じです。",
        "Nenhuma tem mais autoridade.",
    ),
}
