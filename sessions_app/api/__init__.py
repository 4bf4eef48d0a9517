"""JSON for programs: what the pages can do, at `/api/`; and ADK's own routes at their own addresses.

`routes` puts the parts together and writes the OpenAPI document; `asking` finds out who asks, what they may do and which
source they mean; `bodies` reads and writes JSON; `schemas` and `past_schemas` say what answers look like. A part looks up,
calls one verb of the core, answers.
"""
