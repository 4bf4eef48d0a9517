"""The index of where each key was written, in adkweb's own database: built from a source, then asked.

`build` keeps it up to date with `read_source` and `tables`; `query` asks it for positions, and `written` reads what the
events at those positions wrote.
"""
