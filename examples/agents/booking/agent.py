"""The booking agent, its sub agent for payment, and a loop that watches a fare."""

import warnings

from google.adk.agents import LlmAgent, LoopAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.tools import FunctionTool, LongRunningFunctionTool, exit_loop

from . import script, tools
from .scripted_model import ScriptedModel


def welcome(callback_context: CallbackContext) -> None:
    """Count the sessions of a user, once in each."""
    state = callback_context.state
    if "visit" not in state:
        state["user:visits"] = state["visit"] = state.get("user:visits", 0) + 1


billing = LlmAgent(
    name="billing",
    description="Charges cards, asks for approval and sends receipts.",
    model=ScriptedModel(script=script.billing),
    instruction="You take payments. The amount due is {amount_due?} EUR. The last payment was {payment?}. "
    "When the payment is done, transfer back to booking.",
    tools=[tools.charge_card, LongRunningFunctionTool(tools.request_approval), tools.send_receipt],
    on_tool_error_callback=tools.explain_decline,
)

fare_checker = LlmAgent(
    name="fare_checker",
    description="Looks at a fare once.",
    model=ScriptedModel(script=script.fare_checker),
    instruction="Check the fare of the booked flight. Call exit_loop when it is low enough. It was {fare?} EUR.",
    tools=[tools.check_fare, exit_loop],
)

# ADK says on every start that LoopAgent is going away and that compaction is experimental; the demo shows both.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    fare_watch = LoopAgent(
        name="fare_watch",
        description="Watches a fare until it is low enough.",
        sub_agents=[fare_checker],
        max_iterations=5,
    )
    compaction = EventsCompactionConfig(
        summarizer=LlmEventSummarizer(llm=ScriptedModel(script=script.summary)), compaction_interval=9, overlap_size=1
    )

root_agent = LlmAgent(
    name="booking",
    description="Finds and books flights.",
    model=ScriptedModel(script=script.booking),
    instruction="You help {user:name?} book flights. Tier: {user:tier?}. The user prefers the {user:seat?} seat. "
    "The step is {booking_step?}. The cheapest found is {best_flight?}. The booking is {booking?}. "
    "Leave payment to billing.",
    tools=[
        tools.search_flights,
        tools.book,
        tools.hold_exact_seat,
        FunctionTool(tools.cancel_booking, require_confirmation=True),
        tools.remember,
        tools.name_session,
        tools.add_to_calendar,
        tools.issue_boarding_pass,
    ],
    sub_agents=[billing, fare_watch],
    before_agent_callback=welcome,
    output_key="last_answer",
)

app = App(name="booking", root_agent=root_agent, events_compaction_config=compaction)
