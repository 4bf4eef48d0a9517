"""The routes of `adk api_server`, in its own JSON."""
