"""Holds what pages and programs share: paths, headers, limits, errors as JSON, streamed answers."""
