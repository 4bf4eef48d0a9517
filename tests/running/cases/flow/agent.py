"""The three of `steps`, as a workflow."""

from google.adk.workflow import Workflow
from steps.agent import three

planner, executor, validator = three()
root_agent = Workflow(name="flow", edges=[("START", planner), (planner, executor), (executor, validator)])
