"""One agent that takes complaints in four languages."""

import re
import zlib
from typing import Any

from booking.scripted_model import Script, ScriptedModel, Turn, call, say, suggest
from google.adk.agents import LlmAgent
from google.adk.models import LlmResponse
from google.adk.tools import ToolContext

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


script = Script(
    suggest("My bag is lost", "I want a refund", "¿Dónde está mi maleta?", "좌석을 바꾸고 싶어요", "Thanks, solved")
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
    tools=[open_ticket, close_ticket],
    output_key="last_answer",
)
