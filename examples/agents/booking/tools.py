"""What the booking agents can do; every tool leaves its trace in the session state."""

import zlib
from typing import Any

from fastapi.openapi.models import OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.tools import BaseTool, ToolContext
from google.genai import types

from .documents import picture, receipt

FARES: dict[tuple[str, str], list[tuple[str, float]]] = {
    ("LIS", "ICN"): [("TP431", 412.5), ("KE924", 538.0), ("LH1167", 471.25)],
    ("OPO", "ICN"): [("LH1181", 497.0), ("AF1527", 455.75)],
    ("OSL", "LIS"): [("TP761", 148.0), ("D82771", 96.4)],
    ("MAD", "LIS"): [("IB3107", 74.9), ("TP1015", 68.0)],
    ("PUS", "CJU"): [("KE1001", 38.0), ("LJ501", 29.5), ("BX8101", 31.0)],
}
WATCHED_FARES = [431.0, 412.5, 398.0]

# The sign-in address is given here, so ADK has no random one to make up and a recording can be repeated. There is no client
# id, or else ADK would ask the token's address, and the demo has no network.
CALENDAR = AuthConfig(
    auth_scheme=OAuth2(
        flows=OAuthFlows(
            authorizationCode=OAuthFlowAuthorizationCode(
                authorizationUrl="https://login.example.com/authorize",
                tokenUrl="https://login.example.com/token",
                scopes={"calendar.write": "add events"},
            )
        )
    ),
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2,
        oauth2=OAuth2Auth(
            auth_uri="https://login.example.com/authorize?client=adkweb-demo&state=demo",
            redirect_uri="https://booking.example.com/signed-in",
            state="demo",
        ),
    ),
    credential_key="calendar",
)


class CardDeclinedError(Exception):
    """The bank refused the card."""


class CheckInError(Exception):
    """The airline does not check in whoever is still choosing a flight."""


def search_flights(origin: str, destination: str, date: str, tool_context: ToolContext) -> dict[str, Any]:
    """Find flights between two airports on a day."""
    flights: list[dict[str, Any]] = [
        {"flight": flight, "from": origin, "to": destination, "date": date, "price": price}
        for flight, price in FARES.get((origin, destination), [("XX100", 120.0), ("YY200", 135.5)])
    ]
    state = tool_context.state
    state["searches"] = state.get("searches", 0) + 1
    state["candidates"] = flights
    state["best_flight"] = min(flights, key=lambda flight: flight["price"])["flight"]
    # This is the mistake that the demo is about: who searches again after paying loses the step that they had reached.
    state["booking_step"] = "choose"
    state["app:total_searches"] = state.get("app:total_searches", 0) + 1
    state["temp:raw_fares"] = {flight["flight"]: flight["price"] for flight in flights}
    return {"flights": flights}


def book(flight: str, seat: str, tool_context: ToolContext) -> dict[str, Any]:
    """Hold a seat on one of the flights found."""
    state = tool_context.state
    found = next((each for each in state.get("candidates", []) if each["flight"] == flight), None)
    if found is None:
        return {"error": f"{flight} is not among the flights found"}
    reference = f"{zlib.crc32(f'{tool_context.session.id}/{flight}'.encode()) % 16**6:06X}"
    state["booking"] = {**found, "reference": reference, "seat": seat, "status": "held"}
    state["amount_due"] = found["price"]
    state["booking_step"] = "payment"
    return dict(state["booking"])


def hold_exact_seat(seat: str, tool_context: ToolContext) -> dict[str, Any]:
    """Reserve one exact seat; the seat map service of this demo is always down."""
    tool_context.state["wanted_seat"] = seat
    raise ConnectionError("seat map service unreachable: timed out after 30 s")


def cancel_booking(reference: str, tool_context: ToolContext) -> dict[str, Any]:
    """Cancel a booking; ADK asks the user first."""
    state = tool_context.state
    state["booking"] = {**state.get("booking", {}), "status": "cancelled"}
    state["booking_step"] = None
    return {"reference": reference, "status": "cancelled"}


def remember(key: str, value: str, tool_context: ToolContext) -> dict[str, str]:
    """Remember a preference of the user for all their sessions."""
    tool_context.state[f"user:{key}"] = value
    return {key: value}


def name_session(title: str, tool_context: ToolContext) -> dict[str, str]:
    """Give the session a title."""
    tool_context.state["__session_metadata__"] = {"displayName": title}
    return {"title": title}


def add_to_calendar(tool_context: ToolContext) -> dict[str, Any]:
    """Add the booked flight to the user's calendar, which needs their sign-in."""
    if tool_context.get_auth_response(CALENDAR) is None:
        tool_context.request_credential(CALENDAR)
        return {"status": "waiting for the user to sign in"}
    flight = tool_context.state.get("booking", {}).get("flight")
    tool_context.state["calendar_event"] = {"flight": flight, "reminder_hours": 24}
    return {"status": "added"}


async def issue_boarding_pass(tool_context: ToolContext) -> dict[str, Any]:
    """Draw the boarding pass, keep it as an artifact and show it."""
    booking = tool_context.state.get("booking")
    if not booking:
        return {"error": "nothing is booked yet"}
    step = tool_context.state.get("booking_step")
    if step == "choose":
        raise CheckInError(f"no boarding pass: booking_step is {step!r}, as if nothing were booked")
    image = types.Part.from_bytes(data=picture(booking["reference"]), mime_type="image/png")
    version = await tool_context.save_artifact("boarding-pass.png", image)
    tool_context.state["booking_step"] = "ready"
    return {"reference": booking["reference"], "version": version, "image": image}


def check_fare(flight: str, tool_context: ToolContext) -> dict[str, Any]:
    """Look up the fare of a flight as it is now."""
    state = tool_context.state
    checks = state.get("fare_checks", 0)
    state["fare_checks"] = checks + 1
    state["fare"] = WATCHED_FARES[checks % len(WATCHED_FARES)]
    return {"flight": flight, "fare": state["fare"]}


def charge_card(amount: float, currency: str, card: str, tool_context: ToolContext) -> dict[str, Any]:
    """Charge a card; the amber one is always declined."""
    state = tool_context.state
    attempts = state.get("payment", {}).get("attempts", 0) + 1
    payment = {"amount": amount, "currency": currency, "card": card, "attempts": attempts}
    if card == "amber":
        state["payment"] = {**payment, "status": "declined"}
        raise CardDeclinedError(f"card declined by the bank (attempt {attempts})")
    if card == "company":
        state["approval"] = {**state.get("approval", {}), "status": "approved"}
    state["payment"] = {**payment, "status": "paid"}
    state["user:card_token"] = f"tok_demo_{zlib.crc32(card.encode()):08x}"
    state["amount_due"] = 0
    state["booking"] = {**state.get("booking", {}), "status": "confirmed"}
    state["booking_step"] = "confirm"
    return {"status": "paid", "amount": amount, "currency": currency}


def explain_decline(
    tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, error: Exception
) -> dict[str, str] | None:
    """Turn a declined card into an answer the agent can talk about; any other error ends the run."""
    return {"error": str(error)} if isinstance(error, CardDeclinedError) else None


def request_approval(amount: float, reason: str, tool_context: ToolContext) -> dict[str, Any]:
    """Ask a manager to approve an amount; the answer comes later."""
    tool_context.state["approval"] = {"amount": amount, "reason": reason, "status": "pending"}
    return {"status": "pending", "ticket": f"AP-{int(amount)}", "sent_to": "travel desk"}


async def send_receipt(tool_context: ToolContext) -> dict[str, Any]:
    """Write the receipt and keep it as an artifact."""
    booking, payment = tool_context.state["booking"], tool_context.state["payment"]
    pdf = receipt(
        [
            f"Receipt {booking['reference']}",
            f"{booking['flight']} {booking['from']} to {booking['to']} on {booking['date']}",
            f"Paid {payment['amount']:.2f} {payment['currency']} by {payment['card']} card",
        ]
    )
    version = await tool_context.save_artifact(
        "receipt.pdf", types.Part.from_bytes(data=pdf, mime_type="application/pdf")
    )
    return {"file": "receipt.pdf", "version": version}
