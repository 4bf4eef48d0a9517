"""Travels in time: where each key was written, the state at any event, and what drifted."""
