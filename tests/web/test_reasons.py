"""Why a replay is undecided, in the words of a page: each sentence that an agent's process says has its own."""

from __future__ import annotations

import ast
from pathlib import Path

from django.utils.translation import override

from sessions_app.web.reasons import in_words

ADK = Path(__file__).resolve().parents[2] / "sessions_app" / "adk"


def said(file: str) -> list[str]:
    """The sentences of a file: what is given as `why`, or to Impossible and NeedsCode."""
    tree = ast.parse((ADK / file).read_text("utf-8"))
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given += [each.value for each in node.keywords if each.arg == "why"]
            given += node.args if getattr(node.func, "id", "") in ("Impossible", "NeedsCode") else []
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "why":
            given.append(node.value)
    return [text for each in given if (text := _text(each))]


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    values = {
        "ONLY_WITH_RUN_CODE": "runs code of its own, which only run_code allows",
        "callback": "after_model_callback",
    }
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else values.get(ast.unparse(part.value), "clerk")
        for part in parts
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


def test_each_reason_is_a_sentence_in_each_language() -> None:
    reasons = [*said("replay.py"), *said("whatif.py")]
    assert len(reasons) > 10
    for why in reasons:
        assert in_words(why) != why
        for language in ("es", "ko"):
            with override(language):
                assert in_words(why) != why


def test_a_reason_keeps_its_names() -> None:
    assert in_words("read runs code of its own, which only run_code allows").startswith("read runs code of its own")
    assert in_words("something else 100 %") == "something else 100 %"
