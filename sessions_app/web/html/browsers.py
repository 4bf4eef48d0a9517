"""Names the browser that a sign-in came from."""

import re
from typing import Final

from ...domain.brief import words
from .tags import register

# In this order: most browsers also say that they are Chrome and Safari, and most systems that they are another one, too.
_BROWSERS: Final = {"Edg": "Edge", "OPR": "Opera", "SamsungBrowser": "Samsung Internet", "FxiOS": "Firefox"} | {
    "CriOS": "Chrome",
    "Firefox": "Firefox",
    "HeadlessChrome": "Chrome",
    "Chrome": "Chrome",
    "Version": "Safari",
}
_SYSTEMS: Final = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows"} | {
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


@register.filter
def browser_name(agent: str) -> str:
    """Returns what a person calls a browser: “Firefox 140 · Linux”. What is not known is shown as it names itself."""
    for product, name in _BROWSERS.items():
        if version := re.search(rf"\b{product}[A-Za-z]*/(\d+)", agent):
            system = next((each for sign, each in _SYSTEMS.items() if sign in agent), "")
            return " · ".join(filter(None, (f"{name} {version[1]}", system)))
    return words(agent, 60)
