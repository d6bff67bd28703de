from __future__ import annotations

import pytest

from context_engine.core.query import language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("What must be approved before the launch?", "en"),
        ("approval criteria", "en"),
        ("NPA-001", "en"),
        ("4.2.1", "und"),
        ("4.2.1(b)", "und"),
        ("?!", "und"),
        ("审批标准是什么？", "zh"),
        ("NPA 的审批标准", "zh"),
        ("What does 审批 mean?", "en"),
        ("新製品の承認基準", "ja"),
        ("カタカナ", "ja"),
        ("신상품 승인 기준", "ko"),
        ("Welche Grenze gilt für neue Produkte?", "de"),
        ("Quelles sont les règles pour les produits ?", "fr"),
        ("¿Cuál es el límite para los productos?", "es"),
        ("Quali sono le regole per il prodotto?", "it"),
        ("Quais são as regras do produto?", "pt"),
        ("Wat zijn de regels voor het product?", "nl"),
        ("Apa syarat persetujuan untuk produk yang baru?", "id"),
        ("Các quy định của ngân hàng là gì?", "vi"),
        ("Какие нужны разрешения?", "ru"),
        ("ما هي معايير الموافقة", "ar"),
        ("เกณฑ์การอนุมัติ", "th"),
    ],
)
def test_language_of_a_question(text: str, code: str) -> None:
    assert language(text) == code
