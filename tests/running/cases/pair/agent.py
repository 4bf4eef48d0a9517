"""Two agents, one after the other, in an app that can't be resumed. Each calls the tools that the user names."""

from google.adk.agents import LlmAgent, SequentialAgent
from office.agent import Strict, look, wait

names = ("first", "second")
root_agent = SequentialAgent(
    name="pair", sub_agents=[LlmAgent(name=name, model=Strict(), tools=[look, wait]) for name in names]
)
