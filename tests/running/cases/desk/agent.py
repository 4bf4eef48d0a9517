"""The agent of the office, in an app that can be resumed."""

from google.adk.apps import App, ResumabilityConfig
from office.agent import root_agent

app = App(name="desk", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
