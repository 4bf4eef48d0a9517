"""Computes the cost of tokens from the prices that are set for models (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .json_values import as_object

Prices = Mapping[str, tuple[float, float]]  # dollars for a million input tokens, and for a million output tokens


class Usage(NamedTuple):
    """The tokens of a model: its input (`prompt`), and its output, including thoughts."""

    model: str
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost in dollars. `unpriced` has the models without a price, whose tokens are not in it, in alphabetical
    order."""

    dollars: float
    unpriced: tuple[str, ...]


def usage_of(event: Mapping[str, Any], most: int = 2**31 - 1) -> Usage | None:
    """Returns the usage that an event reports for its model, at most `most` tokens of a kind; None if it reports none.

    Tokens in its total but in none of its parts count as input.
    """
    told = as_object(event.get("usage_metadata"))
    numbers = {name: value for name, value in told.items() if type(value) is int and value > 0}
    output = numbers.get("candidates_token_count", 0) + numbers.get("thoughts_token_count", 0)
    given = numbers.get("prompt_token_count", 0) + numbers.get("tool_use_prompt_token_count", 0)
    prompt = max(given, numbers.get("total_token_count", 0) - output)
    model = event.get("model_version")
    return Usage(str(model or ""), min(prompt, most), min(output, most)) if prompt or output else None


def price_of(model: str, prices: Prices) -> tuple[float, float] | None:
    """Returns a model's prices: those under its name, or else under the longest start of it, such as `gemini-2.5-*`."""
    if model in prices:
        return prices[model]
    beginnings = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    return prices[max(beginnings, key=len)] if model and beginnings else None


def cost_of(usage: Iterable[Usage], prices: Prices) -> Cost:
    """Returns the total cost of some models."""
    dollars, unpriced = 0.0, set()
    for each in usage:
        if price := price_of(each.model, prices):
            dollars += (each.prompt * price[0] + each.output * price[1]) / 1_000_000
        else:
            unpriced.add(each.model)
    return Cost(dollars, tuple(sorted(unpriced)))
