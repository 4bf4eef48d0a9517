from . import root_agent as root_agent
