"""A workflow about late flights: it reads a claim, asks a person at the airline to decide, and tells the passenger."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from booking.scripted_model import Script, ScriptedModel, Turn, say, suggest
from google.adk.agents import LlmAgent
from google.adk.events import Event, RequestInput
from google.adk.models import LlmResponse
from google.adk.workflow import Workflow
from google.genai import types
from pydantic import BaseModel, Field

HOURS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
FLIGHT = re.compile(r"\b[A-Z]{2}\d{3,4}\b")
DELAY = re.compile(rf"\b(?P<hours>\d{{1,2}}|{'|'.join(HOURS)}) hours?\b", re.IGNORECASE)


class Decision(BaseModel):
    """What the airline does about a claim."""

    outcome: Literal["pay", "voucher", "reject"] = Field(description="A voucher is worth 20 % more")
    amount: float = Field(default=250, ge=0, title="Amount in EUR", description="For each passenger")
    passengers: int = Field(ge=1, le=9, description="How many people claim together")
    weather: bool = Field(default=False, title="It was the weather", description="Then nothing has to be paid")
    note: str = Field(default="", description="A sentence for the passenger")


def read(node_input: types.Content) -> Event:
    """Take the flight and its delay from what the passenger wrote."""
    text = " ".join(part.text or "" for part in node_input.parts or [])
    flight, delay = FLIGHT.search(text), DELAY.search(text)
    if not flight or not delay:
        return Event(actions={"route": "unclear"}, output=text)
    hours = delay["hours"].lower()
    claim = {"flight": flight[0], "hours": HOURS.get(hours) or int(hours)}
    return Event(actions={"route": "clear", "state_delta": {"claim": claim}}, output=claim)


def ask(node_input: dict[str, Any]) -> Iterator[RequestInput]:
    """Ask a person at the airline."""
    flight, hours = node_input["flight"], node_input["hours"]
    message = f"{flight} was {hours} hours late. What do we do for these passengers?"
    yield RequestInput(message=message, payload=node_input, response_schema=Decision)


def settle(node_input: dict[str, Any], claim: dict[str, Any]) -> Event:
    """Keep what was decided. What the answer leaves out is None."""
    settled = {**claim, **{name: value for name, value in node_input.items() if value is not None}}
    return Event(actions={"state_delta": {"claim": settled}}, output=settled)


script = Script(suggest("My flight TP431 was five hours late. What do I get?"))


@script.said(r'^\{"flight": .*"outcome": ')
def tell(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Tell the passenger what was decided."""
    claim = json.loads(turn.said)
    flight, note = claim["flight"], claim.get("note", "")
    total = claim.get("amount", 250) * claim["passengers"]
    match claim["outcome"]:
        case "pay":
            text = f"We are sorry that {flight} was so late. You get {total:.2f} EUR within seven days."
        case "voucher":
            text = (
                f"We are sorry that {flight} was so late. Here is a voucher of {total * 1.2:.2f} EUR, valid for a year."
            )
        case _:
            why = "Because of the weather" if claim.get("weather") else "After a close look"
            text = f"We are sorry that {flight} was so late. {why}, we can't pay anything for it."
    return say(f"{text} {note}".strip(), thought="A person has decided. I only say so in friendly words.")


writer = LlmAgent(
    name="writer",
    description="Writes to the passenger.",
    model=ScriptedModel(script=script),
    instruction="Write to the passenger. The claim is {claim?}.",
)

root_agent = Workflow(
    name="claims",
    description="Takes claims of passengers whose flight was late.",
    edges=[("START", read, {"clear": ask, "unclear": writer}), (ask, settle, writer)],
)
