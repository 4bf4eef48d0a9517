"""Renders values, times, links and differences as HTML. Everything is escaped."""
