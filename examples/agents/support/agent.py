"""One agent that takes complaints in four languages, and asks people before it pays anything back."""

import re
import zlib
from typing import Any

from booking.scripted_model import Script, ScriptedModel, Turn, call, say, suggest
from google.adk.agents import LlmAgent
from google.adk.models import LlmResponse
from google.adk.tools import ToolContext, request_input

# The first script that occurs in the text decides; Spanish is told by its own signs and a few words.
LANGUAGES = {
    "ko": r"[\uac00-\ud7a3]",
    "ar": r"[\u0600-\u06ff]",
    "es": r"[¿¡ñ]|\b(maleta|gracias|vuelo)\b",
    "en": r"",
}
OPENED = {
    "ko": "접수했습니다. 문의 번호는 {id}입니다. 🙏",
    "ar": "تم تسجيل طلبك برقم {id}. سنعود إليك خلال 24 ساعة. 🙏",
    "es": "He abierto la incidencia {id}. Te avisaremos en menos de 24 horas. 🧳",
    "en": "I opened ticket {id}. We will get back to you within 24 hours.",
}
CLOSED = {
    "ko": "문의 {id}을(를) 종료했습니다. 감사합니다!",
    "ar": "تم إغلاق الطلب {id}. شكراً لك! 🌟",
    "es": "La incidencia {id} queda cerrada. ¡Gracias por escribirnos!",
    "en": "Ticket {id} is closed. Thank you!",
}


def language_of(text: str) -> str:
    """Guess the language of a text."""
    return next(code for code, pattern in LANGUAGES.items() if re.search(pattern, text, re.IGNORECASE))


def open_ticket(topic: str, text: str, language: str, tool_context: ToolContext) -> dict[str, Any]:
    """Open a ticket about a topic."""
    state = tool_context.state
    ticket = {"id": f"S-{zlib.crc32(text.encode()) % 10_000:04d}", "topic": topic, "status": "open", "text": text}
    state["ticket"] = ticket
    state["user:language"] = language
    state["user:tickets"] = [*state.get("user:tickets", []), ticket["id"]]
    state["app:open_tickets"] = state.get("app:open_tickets", 0) + 1
    state["temp:raw_text"] = text
    return {"id": ticket["id"]}


def close_ticket(tool_context: ToolContext) -> dict[str, Any]:
    """Close the ticket of this session."""
    state = tool_context.state
    if not state.get("ticket"):
        return {"error": "no ticket is open"}
    state["ticket"] = {**state["ticket"], "status": "closed"}
    state["app:open_tickets"] = state.get("app:open_tickets", 1) - 1
    return {"id": state["ticket"]["id"]}


def refund(booking: str, amount: float, tool_context: ToolContext) -> dict[str, Any]:
    """Pay money back, as much as a person allows."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        payload = {"amount": amount, "reason": "cancelled by the airline"}
        tool_context.request_confirmation(hint=f"Refund {amount:.2f} EUR for booking {booking}?", payload=payload)
        return {"status": "waiting"}
    match confirmation.confirmed, confirmation.payload:
        case False, _:
            refunded = {"booking": booking, "status": "declined"}
        case True, {"amount": int() | float() as allowed}:
            refunded = {"booking": booking, "status": "refunded", "amount": allowed}
        case _:
            return {"error": "the payload has no amount"}
    tool_context.state["refund"] = refunded
    return refunded


def change_name(given: str, family: str, tool_context: ToolContext) -> dict[str, Any]:
    """Write a ticket anew with the right name."""
    tool_context.state["ticket_name"] = f"{family}/{given}".upper()
    return {"name": f"{given} {family}"}


script = Script(
    suggest(
        "My bag is lost",
        "Refund 148 EUR for booking 5D21A0 (a person approves it)",
        "There is a typo in my name (asks for the right one)",
        "¿Dónde está mi maleta?",
        "좌석을 바꾸고 싶어요",
        "Thanks, solved",
    )
)


@script.said(r"solved|gracias|감사|شكر")
def solved(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Close the ticket when the user is happy."""
    return call("close_ticket")


@script.answered("close_ticket")
def closed(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Confirm it."""
    if "error" in answer:
        return say("You are welcome!")
    return say(CLOSED[language_of(turn.said)].format(**answer))


@script.said(r"refund.*?(?P<amount>\d+(\.\d+)?) EUR for booking (?P<booking>\w+)")
def pay_back(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Pay the amount back that is named."""
    thought = "Money goes out, so a person has to agree first."
    return call("refund", thought=thought, booking=found["booking"], amount=float(found["amount"]))


@script.answered("refund")
def paid_back(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Say what became of the refund."""
    match answer:
        case {"status": "refunded"}:
            return say(
                f"Good news: {answer['amount']:.2f} EUR for booking {answer['booking']} are on their way back to your "
                "card. It takes up to five days until you see them."
            )
        case {"status": "declined"}:
            return say(f"I am sorry: a colleague looked at booking {answer['booking']} and declined the refund.")
        case {"error": error}:
            return say(f"That did not work: {error}. Nothing was paid back.")
    return say("A colleague has to agree to this refund. I will tell you as soon as they have decided.")


@script.said(r"typo|misspel|wrong name|my name")
def ask_name(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Ask how the name is written."""
    name = {"type": "string", "minLength": 1}
    schema = {
        "type": "object",
        "properties": {
            "given": {**name, "title": "Given name", "description": "All of them, as in the passport"},
            "family": {**name, "title": "Family name"},
        },
        "required": ["given", "family"],
    }
    return call("adk_request_input", message="How is the name written in the passport?", response_schema=schema)


@script.answered("adk_request_input")
def correct_name(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Have the ticket written anew."""
    return call("change_name", given=answer["result"]["given"], family=answer["result"]["family"])


@script.answered("change_name")
def corrected_name(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Confirm it."""
    return say(f"Done. Your ticket is now in the name of {answer['name']}. The old one is no longer valid.")


@script.said(
    r"(?P<baggage>\bbag|maleta|수하물|حقيب)|(?P<refund>refund|reembolso|환불|استرداد)|(?P<seat>seat|asiento|좌석|مقعد)"
)
def complain(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Open a ticket about the topic named."""
    topic = str(found.lastgroup)
    language = language_of(turn.said)
    return call("open_ticket", thought=f"{topic}, in {language}.", topic=topic, text=turn.said, language=language)


@script.answered("open_ticket")
def opened(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Confirm it in the user's language."""
    return say(OPENED[language_of(turn.said)].format(**answer))


root_agent = LlmAgent(
    name="support",
    description="Takes complaints and opens tickets.",
    model=ScriptedModel(script=script),
    instruction="Answer in the language of the user ({user:language?}). Their tickets: {user:tickets?}.",
    tools=[open_ticket, close_ticket, refund, change_name, request_input],
    output_key="last_answer",
)
