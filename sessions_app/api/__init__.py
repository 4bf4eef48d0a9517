"""Serves what the pages can do as JSON, for programs, at `/api/`, and ADK's own routes at their own addresses.

`routes` puts the parts together, and `openapi` describes them. `authorize` finds out who asks, what they may do, and
which source they mean. `bodies` reads and writes JSON. `schemas` says what answers look like. A part
resolves the names, calls one function of the core, and answers."""
