"""Names what an export left out in a header of its answer: a file of google-adk's has no place for it."""

from typing import Final
from urllib.parse import quote

from ..transfer.exporting import Damaged

NAME: Final = "Adkweb-Left-Out"
_LENGTH: Final = 4_000  # characters: more is cut by proxies


def left_out_header(rows: Damaged | None) -> dict[str, str]:
    """Returns the header: “2: shop/ana/s1/e2 shop/ana/s1/e5”, with names as in addresses. Long lists are cut."""
    if rows is None:
        return {}
    names = " ".join(quote(name.encode("utf-8", "replace"), safe="/") for name in rows.names)
    return {NAME: f"{len(rows.names)}: {names}"[:_LENGTH]}
