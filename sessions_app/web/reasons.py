"""Why a replay is undecided, or a what-if can't be tried, in the words of a page: agents' processes say it in English."""

import re
from typing import Final

from django.utils.translation import gettext_lazy

_CODE: Final = r"(?P<name>.+) runs code of its own, which only run_code allows"
_WORDS: Final = {
    re.compile(said): words
    for said, words in (
        (_CODE, gettext_lazy("%(name)s runs code of its own, which wasn't allowed.")),
        (r"it was spoken, and sound isn't sent again", gettext_lazy("It was spoken, and sound isn't sent again.")),
        (
            r"nobody has written to the agent in this session",
            gettext_lazy("No one has written to the agent in this session."),
        ),
        (
            r"someone else wrote to the session while the agent ran",
            gettext_lazy("Someone else wrote to the session while the agent ran."),
        ),
        (
            r"someone else wrote to the session while the agent ran: start at the user's message",
            gettext_lazy("Someone else wrote to the session while the agent ran. Start at the user's message."),
        ),
        (
            r"the value of (?P<name>.+) before this session isn't known",
            gettext_lazy("The value of %(name)s before this session isn't known."),
        ),
        (r"the result of this call isn't recorded", gettext_lazy("The result of a tool isn't recorded.")),
        (
            r"the run ended early, and not everything before that can be made again",
            gettext_lazy("The run ended early, and not everything before that can be made again."),
        ),
        (
            r"the (?P<callback>\w+) of (?P<name>.+) changes what it gets, and the recording only has the result",
            gettext_lazy("The %(callback)s of %(name)s changes what it gets, and the recording only has the result."),
        ),
        (
            r"the agent reads the artifact (?P<name>.+), which the recording doesn't have",
            gettext_lazy("The agent reads the artifact %(name)s, which the recording doesn't have."),
        ),
        (
            r"google-adk can't read this session: (?P<name>.*)",
            gettext_lazy("google-adk can't read this session: %(name)s"),
        ),
        (
            r"the session doesn't have this event any longer",
            gettext_lazy("The session doesn't have this event any longer."),
        ),
        (
            r"nothing comes after this event: say what the user writes next",
            gettext_lazy("Nothing comes after this event. Type what the user writes next."),
        ),
        (
            r"today there's no agent (?P<name>.+) with an instruction",
            gettext_lazy("Today there's no agent %(name)s with an instruction."),
        ),
        (r"today there's no agent (?P<name>.+)", gettext_lazy("Today there's no agent %(name)s.")),
    )
}


def in_words(why: str) -> str:
    """Returns a reason in the reader's language; what no table has, as it is."""
    for said, words in _WORDS.items():
        if match := said.fullmatch(why):
            return str(words) % match.groupdict()
    return why


def is_about_code(why: str) -> bool:
    """Tells whether it would go on if code of the agent were allowed to run."""
    return re.fullmatch(_CODE, why) is not None
