"""The two of `pair`, in an app that can be resumed."""

from google.adk.apps import App, ResumabilityConfig
from pair.agent import root_agent

app = App(name="long_pair", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
