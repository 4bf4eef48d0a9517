"""Sign-ins are listed by the browser and the system that people know."""

import pytest

from sessions_app.web.templatetags.tags import browser_name


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36", "Chrome 140 · Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.1", "Edge 140 · Windows"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) Version/26.0 Mobile Safari/604.1",
            "Safari 26 · iPhone",
        ),
        ("Mozilla/5.0 (Android 16; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0", "Firefox 145 · Android"),
        ("curl/8.5", "curl/8.5"),
        ("", ""),
    ],
)
def test_a_browser_has_the_name_that_people_call_it(agent: str, name: str) -> None:
    assert browser_name(agent) == name
