"""Notes in the event with a model's answer which instruction its agent had, so that a replay can say that it has changed.

The note is a hash of the instruction as it is in the agent's code, before values of state are filled in. Whoever may see the
event may not see all of state, and a value could be guessed from a hash of the text that has it, with a salt, too: who
replays needs the salt. So there is none for an instruction that code puts together, which may have such values.

This file imports the standard library and google-adk only: launcher.py loads it in the interpreter of the agents.
"""

import hashlib
import json
from contextlib import suppress
from typing import Any, Final

from google.adk.plugins.base_plugin import BasePlugin

NOTE: Final = "adkweb_instruction"  # in an event's custom_metadata


def of(agent: Any) -> str:
    """Returns the fingerprint of an agent's instruction, that for all agents included; "" if code makes one of them."""
    texts = [agent.instruction, agent.static_instruction or "", getattr(agent.root_agent, "global_instruction", "")]
    if not all(isinstance(text, str) for text in texts):
        return ""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def note(callback_context: Any, llm_response: Any) -> None:
    """Notes the fingerprint of an agent's instruction in what its model answered. It raises nothing."""
    with suppress(Exception):
        if not llm_response.partial and (known := of(callback_context._invocation_context.agent)):
            llm_response.custom_metadata = {**(llm_response.custom_metadata or {}), NOTE: known}


class Fingerprints(BasePlugin):
    """An ADK plugin that notes fingerprints."""

    def __init__(self, name: str = "adkweb fingerprints") -> None:
        super().__init__(name=name)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Notes it in each answer."""
        note(callback_context, llm_response)
