"""The three of `steps`, in an app that can be resumed."""

from google.adk.agents import SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from steps.agent import three

app = App(
    name="long_steps",
    root_agent=SequentialAgent(name="long_steps", sub_agents=three()),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
