"""Cuts text into words, for the index and for what is looked for. Pure.

Case, accents and forms of the same letter do not count: “Café” and “cafe” are one word. Scripts that are written without
spaces are cut into pairs, which overlap: 機票過 becomes 機票, 票過, 過.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_CODE: Final = 12  # characters; so long a word with a digit is an id, and only looked for from its beginning
SHORT: Final = 3  # a shorter ASCII word is only looked for at the beginning of others
LONGEST: Final = 64  # characters of a word; a longer one is cut into several
# Han, kana, Thai, Lao, Khmer, Burmese, Tibetan
_DENSE: Final = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U000323af"
)
_PICTURES: Final = "\u2600-\u27bf\U0001f000-\U0001faff"
# Runs of dense letters, single pictures, and words. A mark that stands over a letter of India belongs to it.
_WORD: Final = re.compile(f"[{_DENSE}]+|[{_PICTURES}]|(?:(?![{_DENSE}{_PICTURES}])[\\w\u0900-\u0dff\u0300-\u036f])+")
_ASCII_WORD: Final = re.compile(r"\w+")
START: Final = "\x1f"  # the unit separator, which nobody types
_STARTS: Final = re.compile(f"(?<![^\\W_])(?=[^\\W_])|(?=[{_DENSE}{_PICTURES}])")
_DENSE_RUN: Final = re.compile(f"[{_DENSE}]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")


def tokens(text: str) -> list[str]:
    """Returns the words of a text, in order: ["fare", "expired"] for “Fare expired!”."""
    if text.isascii():
        words = _ASCII_WORD.findall(text.lower())
    else:
        words = []
        for run in _WORD.findall(folded(text)):
            if _DENSE_RUN.match(run):
                words += [run[n : n + 2] for n in range(len(run))]
            else:
                words.append(run)
    if max(map(len, words), default=0) <= LONGEST:
        return words
    return [word[n : n + LONGEST] for word in words for n in range(0, len(word), LONGEST)]


def spans(text: str) -> list[tuple[str, int, int]]:
    """Returns the words of a text, each with where it begins and ends in it: [("fare", 0, 4)]."""
    spanned: list[tuple[str, int, int]] = []
    for run in _WORD.finditer(text):
        words, start, end = tokens(run.group()), run.start(), run.end()
        if _DENSE_RUN.match(run.group()) and len(words) == end - start:
            spanned += [(word, start + n, min(start + n + 2, end)) for n, word in enumerate(words)]
        elif len(words) > 1 and not text.isascii():
            return _spans_of_forms(text)
        else:
            spanned += [(word, start, end) for word in words]
    return spanned if [word for word, _start, _end in spanned] == tokens(text) else _spans_of_forms(text)


def _spans_of_forms(text: str) -> list[tuple[str, int, int]]:
    """Returns what `spans` does, for a text in which a sign becomes another kind of letter: ㈜ becomes (주)."""
    plain: list[str] = []
    ranges: list[tuple[int, int]] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not _belongs_to_last(text[end]):
            plain.append(folded(text[start:end]))
            ranges += [(start, end)] * len(plain[-1])
            start = end
    spanned = []
    for run in _WORD.finditer("".join(plain)):
        word, first = run.group(), run.start()
        dense = _DENSE_RUN.match(word)
        step, length = (1, 2) if dense else (LONGEST, LONGEST)
        for n in range(0, len(word), step):
            part = word[n : n + length]
            spanned.append((part, ranges[first + n][0], ranges[first + n + len(part) - 1][1]))
    return spanned


def _belongs_to_last(sign: str) -> bool:
    return unicodedata.category(sign)[0] == "M" or "\u1160" <= sign <= "\u11ff" or sign in "\uff9e\uff9f"


def asked(text: str) -> list[str]:
    """Returns the words of a text that is looked for, which may go on: 機票 asks for that pair alone."""
    words = tokens(text)
    ends_run = len(words) > 1 and _DENSE_RUN.match(words[-1]) and words[-2][1:] == words[-1]
    return words[:-1] if ends_run else words


def folded(text: str) -> str:
    """Returns a text without case, accents and forms of letters."""
    if text.isascii():
        return text.lower()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", plain).casefold()


def marked(text: str) -> str:
    """Returns a text as `folded` does, with START before each of its words: “Ana.Meyer” has “ana” and “meyer”.

    So a name is looked for from the start of a word: “ana” is found in “Ana.Meyer”, and not in “tanaka”.
    """
    return _STARTS.sub(START, folded(text))


def is_part(word: str) -> bool:
    """Tells whether a word that is looked for may stand in the middle of others, or only at the beginning."""
    return len(word) >= SHORT or not word.isascii()


def has_parts(word: str) -> bool:
    """Tells whether a word may be matched by its middle or its end; an id is not, only by its beginning."""
    return len(word) < _CODE or not any(map(str.isdigit, word))


def where_in(term: Sequence[str], line: Sequence[str]) -> int | None:
    """Returns the number of the word of a line from which on the words of a term stand in it; None if they do not.

    The first may be the end of a longer word and the last the beginning of one: “are expi” stands in “fare expired”.
    """
    if not term:
        return None
    for n in range(len(line) - len(term) + 1):
        if _begins(term[0], line[n], alone=len(term) == 1) and all(
            word.startswith(part) if last else word == part
            for word, part, last in zip(line[n + 1 :], term[1:], [False] * (len(term) - 2) + [True], strict=False)
        ):
            return n
    return None


def _begins(part: str, word: str, *, alone: bool) -> bool:
    if word == part or (alone and word.startswith(part)):
        return True
    if not has_parts(word):
        return False
    return is_part(part) and part in word if alone else word.endswith(part)
