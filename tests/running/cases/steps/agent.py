"""A planner, an executor and a validator, of which the first two ask first."""

from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.tools import FunctionTool
from office.agent import Strict, execute, look, plan


def three() -> list[LlmAgent]:
    """Returns the three."""
    asking = {"planner": plan, "executor": execute}
    return [
        *(
            LlmAgent(name=name, model=Strict(step=tool.__name__), tools=[FunctionTool(tool, require_confirmation=True)])
            for name, tool in asking.items()
        ),
        LlmAgent(name="validator", model=Strict(step="look"), tools=[look]),
    ]


root_agent = SequentialAgent(name="steps", sub_agents=three())
