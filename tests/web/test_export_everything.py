"""The page that exports everything of a user, and the file that it leads to."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import pytest

from sessions_app.domain.session_ref import SessionRef
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.web.conftest import Browser, names_of
from tests.web.test_artifacts import content_of

# The work is done by threads, which see only what is committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("export")


def test_a_user_is_exported_downloaded_and_the_file_deleted(maria: Browser, ref: SessionRef) -> None:
    names = names_of(ref, 3)
    links = maria.open("user", **names).links()
    page = maria.open(next(href for text, href in links.items() if text.startswith("Export everything")))
    assert "No exports yet" in page.text
    answer = maria.send("export-everything", {}, **names)
    settle("export")
    page = maria.open(answer["Location"])
    (link,) = [href for text, href in page.one("ul", "feed").links().items() if text.startswith("Download")]
    download = maria.get(link)
    assert (download["Content-Type"], download["Content-Disposition"]) == (
        "application/zip",
        'attachment; filename="booking-ana.zip"',
    )
    with zipfile.ZipFile(io.BytesIO(content_of(download))) as file:
        assert set(file.namelist()) == {"sessions.jsonl", "about.json"}
    bob = Browser()
    bob.force_login(somebody("bob", "editor"))
    assert bob.get(link).status_code == 403
    assert "Export everything" not in bob.open("user", **names).text
    (button,) = [each for each in page.all("button") if each.text == "Delete"]
    maria.send("export-everything", {"discard": button["value"]}, **names)
    assert maria.get(link).status_code == 404
    assert "No exports yet" in maria.open("export-everything", **names).text


def test_nothing_is_begun_for_a_user_who_is_not_there(maria: Browser, ref: SessionRef) -> None:
    assert maria.send("export-everything", {}, **{**names_of(ref, 3), "user_id": "ghost"}).status_code == 404
    assert maria.send("export-everything", {"discard": "x"}, **names_of(ref, 3)).status_code == 400


def test_read_only_makes_no_file(maria: Browser, ref: SessionRef, read_only: None) -> None:
    maria.open("export-everything", status=403, **names_of(ref, 3))
    assert "Export everything" not in maria.open("user", **names_of(ref, 3)).text
