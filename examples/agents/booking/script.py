"""What the booking agents say: the lines behind the scripted model."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.models import LlmResponse
from google.genai import types

from .scripted_model import Script, Turn, call, fail, reply, say, suggest, transfer

CITIES = {
    "lisbon": "LIS", "seoul": "ICN", "porto": "OPO", "oslo": "OSL", "madrid": "MAD",
    "부산": "PUS", "제주": "CJU", "서울": "ICN", "리스본": "LIS",
}  # fmt: skip
SIGNED_IN = "https://booking.example.com/signed-in?state=demo"  # see CALENDAR in tools.py
HANGUL = re.compile(r"[\uac00-\ud7a3]")

booking = Script(
    suggest(
        "Find me a flight from Lisbon to Seoul on 2026-12-01",
        "Book the cheapest one",
        "Pay with the amber card (declined), Pay with the blue card, Pay on the company account (needs approval)",
        "Show me my boarding pass",
        "Put it in my calendar (asks for sign-in)",
        "Watch the fare until it is under 400 EUR (a loop that escalates)",
        "Cancel the booking (asks for confirmation)",
        "What is that in won? (runs code)",
        "Call this trip Winter in Seoul",
        "Reserve seat 12A (the tool breaks)",
    )
)


@booking.said(r"compar(e|ing) (?P<first>\w+) and (?P<second>\w+) to (?P<to>\w+) on (?P<date>[\d-]+)")
def compare(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Search from two airports at once, in two parallel calls."""
    searches = [
        types.FunctionCall(
            name="search_flights",
            args={
                "origin": CITIES[found[start].lower()],
                "destination": CITIES[found["to"].lower()],
                "date": found["date"],
            },
        )
        for start in ("first", "second")
    ]
    return reply(
        *(types.Part(function_call=search) for search in searches),
        thought="Two origins, one destination: I can search both at the same time.",
    )


@booking.said(r"(flight|항공편).*?(?P<date>\d{4}-\d\d-\d\d)|(?P<day>\d{4}-\d\d-\d\d).*?(flight|항공편)")
def search(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Search between the two cities named, in the order they are named."""
    return _search(turn, found["date"] or found["day"], "a day, so I have all I need to search")


def _search(turn: Turn, date: str, when: str) -> LlmResponse:
    words = turn.said.lower()
    named = sorted((city for city in CITIES if city in words), key=words.index)
    if len(named) < 2:
        return say("From which city to which? I know Lisbon, Porto, Madrid, Oslo, Seoul, 부산 and 제주.")
    return call(
        "search_flights",
        thought=f"They name {named[0].title()} and {named[1].title()} and {when}.",
        origin=CITIES[named[0]],
        destination=CITIES[named[1]],
        date=date,
    )


@booking.answered("search_flights")
def offer(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Name the number of flights and the cheapest."""
    flights = answer["flights"]
    best = min(flights, key=lambda flight: flight["price"])
    if HANGUL.search(turn.said):
        return say(
            f"항공편 {len(flights)}개를 찾았습니다. "
            f"가장 저렴한 것은 {best['flight']}편, {best['price']:.2f}유로입니다. ✈️"
        )
    return say(f"I found {len(flights)} flights. The cheapest is {best['flight']} at {best['price']:.2f} EUR.")


@booking.said(r"book (?P<flight>[A-Z]{1,2}\d+)|book the (?P<cheapest>cheapest)|(?P<korean>예약)")
def book(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Book the flight named, or the cheapest that the instruction lists."""
    cheapest = re.search(r"cheapest found is (\w+)", turn.instruction)
    flight = found["flight"] or (cheapest and cheapest[1])
    if not flight:
        return say("Let me find you a flight first: tell me from where, to where and when.")
    seat = re.search(r"prefers the (\w+) seat", turn.instruction)
    return call("book", flight=flight.upper(), seat=seat[1] if seat else "any")


@booking.answered("book")
def held(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Say what is held and ask how it will be paid."""
    if "error" in answer:
        return say(f"That did not work: {answer['error']}.")
    if HANGUL.search(turn.said):
        return say(f"{answer['flight']}편 좌석을 잡아 두었습니다. 예약 번호는 {answer['reference']}입니다.")
    return say(
        f"{answer['flight']} is held under reference {answer['reference']} ({answer['seat']} seat). "
        f"It comes to {answer['price']:.2f} EUR. How would you like to pay?"
    )


@booking.said(r"\b(pay|amber|blue|green)\b")
def pay(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Leave payment to billing, and close the booking when billing is done."""
    if turn.back_from("billing"):
        return say("All paid: your booking is confirmed and the receipt is in your files. Have a good flight!")
    if "'status': 'held'" not in turn.instruction:
        return say("There is nothing to pay yet. Shall I find you a flight?")
    return transfer("billing")


@booking.said(r"boarding pass")
def boarding_pass(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Issue the boarding pass."""
    return call("issue_boarding_pass")


@booking.answered("issue_boarding_pass")
def here_is_your_pass(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Show that it is there."""
    if "error" in answer:
        return say("There is no booking yet, so there is no boarding pass either.")
    return say(f"Here is the boarding pass for {answer['reference']}. I also kept it as boarding-pass.png.")


@booking.said(r"how .*calendar")
def explain_sign_in(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Say how to sign in where nobody answers."""
    return say(f"Just ask, and sign in. In this demo, come back with {SIGNED_IN}")


@booking.said(r"calendar")
def calendar(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Add the flight to the calendar."""
    return call("add_to_calendar")


@booking.answered("add_to_calendar")
def added(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Say whether it is in the calendar."""
    if answer.get("status") == "added":
        return say("It is in your calendar, with a reminder 24 hours before departure.")
    return say("Please sign in to your calendar, then I will add the flight.")


@booking.said(r"watch the fare")
def watch(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Leave watching to the loop."""
    return transfer("fare_watch")


@booking.said(r"\bcancel\b")
def cancel(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Cancel the booking that the instruction names."""
    reference = re.search(r"'reference': '(\w+)'", turn.instruction)
    return call("cancel_booking", reference=reference[1]) if reference else say("There is nothing to cancel.")


@booking.answered("cancel_booking")
def cancelled(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Say what became of the booking."""
    if answer.get("status") == "cancelled":
        return say(f"Booking {answer['reference']} is cancelled. The refund takes up to five days.")
    return say("All right, your booking stays as it is.")


@booking.said(r"in won\b")
def convert(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Answer with code and its result, as a model with code execution does."""
    code = "rate = 1702.35  # KRW per EUR\nprint(f'{412.50 * rate:,.0f} KRW')"
    return reply(
        types.Part(text="Let me work that out."),
        types.Part(executable_code=types.ExecutableCode(code=code, language=types.Language.PYTHON)),
        types.Part(
            code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="702,219 KRW\n")
        ),
        types.Part(text="412.50 EUR is about **702,219 KRW**."),
    )


@booking.said(r"visa")
def visa(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Answer from a source, as a grounded model does."""
    response = say(
        "No. With a Portuguese passport you can stay in Korea for up to 90 days without a visa.",
        thought="The state says needs_visa is false. Entry rules change, so I had better name a source.",
    )
    source = types.GroundingChunkWeb(uri="https://visa.example.com/korea", title="Entry rules: Korea")
    response.grounding_metadata = types.GroundingMetadata(
        web_search_queries=["Korea visa Portugal passport"],
        grounding_chunks=[types.GroundingChunk(web=source)],
    )
    return response


@booking.said(r"always .*?(?P<seat>aisle|window) seat")
def prefer(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Remember the seat for all sessions of this user."""
    return call("remember", key="seat", value=found["seat"].lower())


@booking.answered("remember")
def remembered(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Confirm what is remembered."""
    (key, value), *_ = answer.items()
    return say(f"Noted: {key} is {value}, for all your trips.")


@booking.said(r"call this trip (?P<title>.+)")
def name(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Give the session its title."""
    return call("name_session", title=found["title"].strip(" .!"))


@booking.answered("name_session")
def named(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Confirm the title."""
    return say(f"This trip is now called “{answer['title']}”.")


@booking.said(r"(reserve|hold) seat (?P<seat>\w+)")
def exact_seat(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Call the tool that breaks."""
    return call("hold_exact_seat", seat=found["seat"].upper())


@booking.said(r"once more")
def in_short(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Answer at the third attempt."""
    return say("Stay in **Mapo** for cafés, **Jongno** for palaces, or **Seongsu** for shops. All are on line 2 or 5.")


@booking.said(r"shorter")
def overloaded(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Refuse as a busy model service does."""
    return fail("RESOURCE_EXHAUSTED", "429: the model is overloaded, try again in 20 seconds")


@booking.said(r"neighbourhood|where .* stay")
def long_answer(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Start a long answer that the user interrupts."""
    response = say(
        "Seoul has 25 districts. Let us go through them one by one. First, Gangnam, south of the river, which"
    )
    response.interrupted = True
    return response


@booking.said(r"which .* (better|take)")
def advise(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Answer with a table."""
    return say(
        "| from | flight | price |\n| --- | --- | ---: |\n"
        "| Lisbon | TP431 | 412.50 EUR |\n| Porto | AF1527 | 455.75 EUR |"
        "\n\nTP431 is cheaper, but your sister would need a train to Lisbon (35 EUR). It is about even: take Porto."
    )


@booking.said(r"^(hi|hello|hey|thanks|thank you)\b|^안녕")
def greet(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Greet the user."""
    if turn.said.lower().startswith("thank"):
        return say("You are welcome! 🧳")
    if HANGUL.search(turn.said):
        return say("안녕하세요! 어디로 떠나고 싶으세요?")
    return say(
        "Hello! I find flights, book them and have them paid. Where would you like to go?",
        thought="A greeting and no route yet. I should ask for origin, destination and day.",
    )


@booking.said(r"flight|\bfly\b|vuelo|항공편")
def search_soon(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Search two weeks ahead, if no day is named."""
    day = datetime.now(UTC).date() + timedelta(days=14)
    return _search(turn, day.isoformat(), "no day, so I look two weeks ahead")


# Whatever billing does not know, it gives back to booking, which knows what to suggest.
billing = Script(lambda turn: transfer("booking"))


@billing.said(r"company account")
def approve_first(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Ask for approval before the company pays."""
    return call(
        "request_approval",
        thought="The company pays, so a person has to approve this before I charge anything.",
        amount=amount_due(turn),
        reason="company account",
    )


@billing.answered("request_approval")
def approved(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Wait, charge or give up, as the manager says."""
    match answer.get("status"):
        case "approved":
            return call("charge_card", amount=amount_due(turn), currency="EUR", card="company")
        case "refused":
            return say("The travel desk refused the amount, so nothing was charged.")
        case _:
            return say(f"I asked the travel desk ({answer.get('ticket', 'no ticket')}). I will go on when they answer.")


@billing.said(r"\b(?P<card>amber|blue|green)\b")
def charge(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Charge the card of this colour."""
    return call("charge_card", amount=amount_due(turn), currency="EUR", card=found["card"].lower())


@billing.said(r"\bpay\b")
def which_card(turn: Turn, found: re.Match[str]) -> LlmResponse:
    """Ask for the means of payment."""
    return say("With which card: amber, blue or green? Or on the company account?")


@billing.answered("charge_card")
def charged(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Send the receipt, or ask for another card."""
    if "error" in answer:
        return say("The card was declined. Would you like to try another one?")
    return call("send_receipt")


@billing.answered("send_receipt")
def receipt_sent(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Give the conversation back to booking."""
    return transfer("booking")


def amount_due(turn: Turn) -> float:
    """Read the amount from the instruction, where ADK has filled it in from the state."""
    found = re.search(r"amount due is ([\d.]+\d)", turn.instruction)
    return float(found[1]) if found else 0.0


fare_checker = Script(lambda turn: call("check_fare", flight="TP431"))


@fare_checker.answered("check_fare")
def judge(turn: Turn, answer: dict[str, Any]) -> LlmResponse:
    """Leave the loop when the fare is low enough."""
    limit = re.search(r"under (\d+)", turn.said)
    if answer["fare"] < float(limit[1] if limit else 400):
        return reply(
            types.Part(text=f"{answer['flight']} is down to {answer['fare']:.2f} EUR, time to buy."),
            types.Part(function_call=types.FunctionCall(name="exit_loop", args={})),
        )
    return say(f"{answer['flight']} is at {answer['fare']:.2f} EUR, still too much. I will look again.")


def summarize(turn: Turn) -> LlmResponse:
    """Sum up the conversation that ADK's compaction prompt quotes."""
    wishes = re.findall(r"^user: (.+)$", turn.said, re.MULTILINE)
    used = dict.fromkeys(re.findall(r"called tool: (\w+)", turn.said))
    return say(f"The user said, in order: {' / '.join(wishes)}\nTools used: {', '.join(used)}.")


summary = Script(summarize)
